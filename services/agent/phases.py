"""Phases that replicas declare in a file: read once a second, and told to the watchdog beside the log.

The file lies in the replica's own `/tmp`, where user code writes, so it is opened without following links and only its
first bytes are read. What it says is told when it changes, and again every `REPEAT_S`, so that a lost mark, or
a watchdog that has forgotten everything, does no harm for long. A replica that never had a file is never told of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services.agent.courier import Publisher
from services.agent.replica import Replica
from services.agent.source import open_beneath
from shared.errors import UnavailableError
from shared.logs_wire import PHASE_FILE, Chunk, ReplicaRef

REPEAT_S: Final = 30.0
_READ_BYTES: Final = 256
_DECLARED: Final = re.compile(rb"\s*(?:TM_PHASE=)?([a-z0-9][a-z0-9-]{0,62})\s*")


class PhaseMarks:
    """What was told of each replica, and when."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._told: dict[ReplicaRef, tuple[str, float]] = {}

    async def send(self, replicas: Sequence[Replica], now_s: float) -> None:
        """Tell what is new or was not told for long; what cannot be sent now is tried at the next call."""
        running = [replica for replica in replicas if not replica.log.tail.complete]
        self._told = {ref: told for each in running if (told := self._told.get(ref := each.manifest.replica))}
        for replica in running:
            ref, phase = replica.manifest.replica, declared_in(replica.directory)
            before, at_s = self._told.get(ref, ("", 0.0))
            is_due = phase != before or (ref in self._told and now_s - at_s >= REPEAT_S)
            if is_due and self._publisher.connected and not replica.unsaved:
                try:
                    await self._publisher.publish(_mark(replica, phase), replica.log.number)
                except UnavailableError:
                    return
                self._told[ref] = phase, now_s


def declared_in(directory: Path) -> str:
    """The phase that the replica of this directory declares in its file; empty where it declares none."""
    fd = open_beneath(directory, f"tmp/{PHASE_FILE}")
    if fd is None:
        return ""
    try:
        declared = _DECLARED.fullmatch(os.read(fd, _READ_BYTES))
    except OSError:
        return ""
    finally:
        os.close(fd)
    return declared[1].decode() if declared else ""


def _mark(replica: Replica, phase: str) -> Chunk:
    tail = replica.log.tail
    return Chunk(tail.file, 0, generation=tail.generation, node=replica.manifest.node, phase=phase)
