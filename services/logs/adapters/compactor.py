"""Packs finished segments of all partitions anew, one at a time, in a thread that lets others go first.

What there is to pack a partition notes as it seals segments. What was left by a process that died is found by looking
through the directory once after the start. An archive that does not answer is asked again later; until then segments
stay where they are.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar
from weakref import WeakSet

import structlog

from services.logs.adapters.compaction import (
    archived,
    next_group,
    pack_anew,
    remove_replaced,
    remove_unfinished,
    unarchived,
)
from services.logs.adapters.files import StoredLog
from services.logs.adapters.layout import Layout
from services.logs.adapters.partition import Partition
from shared.errors import UnavailableError
from shared.logs_wire import ReplicaRef, partition_of

_NICENESS: Final = 19
_LOOK_S: Final = 1.0
_RETRY_S: Final = 10.0

Result = TypeVar("Result")


class Compactor:
    """The one who packs anew."""

    def __init__(self, layout: Layout, partitions: Callable[[], Iterable[Partition]]) -> None:
        self._layout = layout
        self._partitions = partitions
        self._swept: WeakSet[Partition] = WeakSet()
        self._log = structlog.get_logger(service="logs")

    async def run(self) -> None:
        """Pack until cancelled."""
        with ThreadPoolExecutor(1, "logs-packing", initializer=_go_last) as thread:
            while True:
                worked = False
                for partition in self._partitions():
                    if partition.recovered.is_set():
                        await self._sweep(partition, thread)
                        worked = await self._pack_one(partition, thread) or worked
                if not worked:
                    await asyncio.sleep(_LOOK_S)

    async def _sweep(self, partition: Partition, thread: ThreadPoolExecutor) -> None:
        if partition in self._swept:
            return
        self._swept.add(partition)
        for replica in await _in(thread, partial(_loose_replicas, self._layout, partition.number)):
            partition.to_pack.setdefault(replica, None)

    async def _pack_one(self, partition: Partition, thread: ThreadPoolExecutor) -> bool:
        """Pack what there is of one log; false where there was nothing."""
        if not partition.to_pack:
            return False
        replica = next(iter(partition.to_pack))
        log = await partition.log(replica)
        try:
            while await self._pack_group(partition, log, thread):
                pass
            await self._archive(partition, log, thread)
        except UnavailableError as error:
            await self._put_off(partition, replica, error.message)
        except OSError as error:  # a full disk, or a job that was deleted under way
            await self._put_off(partition, replica, str(error))
        else:
            if next_group(log.segments) is None:
                partition.to_pack.pop(replica, None)
        return True

    async def _put_off(self, partition: Partition, replica: ReplicaRef, reason: str) -> None:
        """Come back to a log later; its segments are as they were."""
        self._log.warning("packing_put_off", log=replica.tokens, reason=reason, retry_s=_RETRY_S)
        if replica in partition.to_pack:
            del partition.to_pack[replica]
            partition.to_pack[replica] = None
        await asyncio.sleep(_RETRY_S)

    async def _pack_group(self, partition: Partition, log: StoredLog, thread: ThreadPoolExecutor) -> bool:
        group = next_group(log.segments)
        if group is None:
            return False
        segment = await _in(thread, partial(pack_anew, log.segments, group))
        if not await partition.exchange(log, group.segments, segment):
            return False  # whoever writes this log now may use the new segment already
        await _in(thread, partial(remove_replaced, group))
        return True

    async def _archive(self, partition: Partition, log: StoredLog, thread: ThreadPoolExecutor) -> None:
        for segment in unarchived(log.segments):
            there = await _in(thread, partial(archived, log.segments, segment))
            if await partition.exchange(log, [segment], there):
                await _in(thread, partial(segment.path.unlink, missing_ok=True))


def _loose_replicas(layout: Layout, partition: int) -> list[ReplicaRef]:
    """Replicas with logs in the directory; whether there is anything to pack in them is seen when they are opened."""
    replicas = [
        replica for job in layout.jobs() if partition_of(job) == partition for replica in layout.replicas_here(job)
    ]
    for replica in replicas:
        remove_unfinished(layout.replica(replica))
    return [replica for replica in replicas if layout.has_loose_segments(replica)]


async def _in(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, work)


def _go_last() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
