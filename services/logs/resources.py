"""What the replicas of a job use, read on from their stored samples; each sample is read once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.logs.adapters.layout import Layout
from services.logs.domain.resource_history import History
from shared.logs_wire import ReplicaRef
from shared.resource_samples import decode_sample

REPLICAS_MAX: Final = 5000
_READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SampledReplica:
    """A replica and what it used."""

    replica: ReplicaRef
    history: History


@dataclass(slots=True)
class _Read:
    """How far each file of a replica was read, and what was in them."""

    history: History = field(default_factory=History)
    used_bytes: dict[Path, int] = field(default_factory=dict)


class ResourceReader:
    """Reads samples; used from threads, one at a time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: OrderedDict[ReplicaRef, _Read] = OrderedDict()
        self._reading = threading.Lock()

    def sampled(self, job: str, attempt: int | None) -> list[SampledReplica]:
        """The replicas of an attempt that were sampled; of the last such attempt where None is given."""
        with self._reading:
            replicas = sorted(self._layout.replicas_here(job))
            for number in sorted({replica.attempt for replica in replicas}, reverse=True):
                if attempt in (None, number):
                    found = [self._read(replica) for replica in replicas if replica.attempt == number]
                    sampled = [each for each in found if each.history.latest is not None]
                    if sampled:
                        return sampled
        return []

    def _read(self, replica: ReplicaRef) -> SampledReplica:
        known = self._known.setdefault(replica, _Read())
        self._known.move_to_end(replica)
        for path in self._layout.samples(replica):
            _read_on(path, known)
        while len(self._known) > REPLICAS_MAX:
            self._known.popitem(last=False)
        return SampledReplica(replica, known.history)


def _read_on(path: Path, known: _Read) -> None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(known.used_bytes.get(path, 0))
        rest = b""
        while data := file.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                sample = decode_sample(line)
                if sample is not None:
                    known.history.add(sample)
        known.used_bytes[path] = file.tell() - len(rest)
