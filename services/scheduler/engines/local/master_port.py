"""The port at which the replicas of a gang meet: free on this machine, and not given to another gang.

All gangs share the host's network, those of another platform on this machine too, and seconds pass between now and the
moment at which rank 0 listens. So the port that is the same for all jobs elsewhere is no good here: the search begins
at a place that the gang's id gives. It stays below the ports that Linux gives to outgoing connections, so that none of
those takes the port in the meantime.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Collection
from typing import Final

from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangStart

FIRST_PORT: Final = 20_000
PORT_COUNT: Final = 10_000
VARIABLES: Final = ("MASTER_PORT", "PET_MASTER_PORT")


def pick_port(gang: GangStart, taken: Collection[int]) -> int:
    """The first port of the search that nobody has."""
    start = zlib.crc32(gang.id.encode())
    for step in range(PORT_COUNT):
        port = FIRST_PORT + (start + step) % PORT_COUNT
        if port not in taken and is_free(port):
            return port
    raise StartRefusedError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORT_COUNT - 1} is free on this machine")


def is_free(port: int) -> bool:
    """Whether a program could listen on the port at every address of this machine."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True
