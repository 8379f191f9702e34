"""The only ways to touch JetStream: `append`, `append_batch`, `observe`, `follow`, and reactions through FastStream.

`Bus` is the facade that services hold. The modules behind it: `streams` says which streams, consumers and buckets there
are, `provision` makes them or refuses what differs, `connection` connects, `publish` writes, `history` and `follow`
read, `archive` moves ended jobs out of the way, `reactions` turns durable consumers into handlers, `deadletters` keeps
what nobody could handle.
"""

from shared.bus.bus import Bus
from shared.bus.connection import BusOptions
from shared.bus.errors import BusError, BusUnavailableError, ConcurrentWriteError, FencedError
from shared.bus.follow import Bundle, CaughtUp
from shared.bus.publish import Claim, Fence, Transition

__all__ = [
    "Bundle",
    "Bus",
    "BusError",
    "BusOptions",
    "BusUnavailableError",
    "CaughtUp",
    "Claim",
    "ConcurrentWriteError",
    "Fence",
    "FencedError",
    "Transition",
]
