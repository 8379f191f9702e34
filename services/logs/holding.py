"""Instances of the service share its work by partition: each takes its share, and takes over when another is gone.

Once a second an instance looks who is there (`services.logs.adapters.members`). It lets go of the partitions that are
another's by `share_of`, and takes those that are its own as soon as their write-ahead log is free: the lock on that is
what makes sure that a partition has one writer, whatever instances believe of each other. What its predecessor had in
hand and did not acknowledge comes again from the transit or from the agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from services.logs.adapters.members import Members
from services.logs.adapters.partition import Partition
from services.logs.adapters.store import LogStore
from services.logs.domain.assignment import share_of
from shared.errors import UnavailableError
from shared.logs_wire import LOG_PARTITIONS
from shared.tasks import end, run_together

LOOK_S: Final = 1.0

Ingest = Callable[[Partition], Coroutine[Any, Any, None]]


class Holding:
    """The partitions of this instance, and the work on them."""

    def __init__(self, store: LogStore, members: Members, ingest: Ingest, *, archive_name: str = "") -> None:
        self._store = store
        self._archive_name = archive_name
        self._members = members
        self._ingest = ingest
        self._works: dict[int, asyncio.Task[None]] = {}
        self.others: list[str] = []
        self._log = structlog.get_logger(service="logs", instance=members.instance)

    async def run(self) -> None:
        """Hold the share until cancelled; an error of the work on a partition is raised."""
        try:
            await self._prepare()
            while True:
                await self._adjust()
                done, _ = await asyncio.wait(
                    [asyncio.create_task(asyncio.sleep(LOOK_S)), *self._works.values()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    task.result()
        finally:
            await end(*self._works.values())
            await self._store.close()
            self._members.leave()

    async def _prepare(self) -> None:
        while True:
            try:
                found = await self._store.prepare(self._archive_name)
            except UnavailableError as error:
                self._log.warning("archive_does_not_answer", reason=error.message, retry_s=LOOK_S)
                await asyncio.sleep(LOOK_S)
            else:
                if found:
                    self._log.info("archive_taken_down", segments=found)
                return

    @property
    def has_share(self) -> bool:
        """Whether nothing is left to take."""
        return self._share <= self._store.held.keys()

    @property
    def _share(self) -> frozenset[int]:
        return share_of(self._members.instance, self.others, LOG_PARTITIONS)

    async def _adjust(self) -> None:
        self.others = await asyncio.to_thread(self._members.others)
        share = self._share
        for number in [number for number in self._works if number not in share]:
            await end(self._works.pop(number))
            await self._store.let_go(number)
            self._log.info("partition_left", partition=number)
        for number in sorted(share - self._works.keys()):
            partition = self._store.hold(number)
            if partition is not None:
                self._works[number] = asyncio.create_task(run_together(self._ingest(partition), partition.run()))
                self._log.info("partition_taken", partition=number)
