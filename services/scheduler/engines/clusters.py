"""Several clusters as one engine: calls go to the cluster that has the gang, reports of all of them are one stream.

No cluster waits for another. Each is observed for itself, and where its stream breaks it alone is observed anew, which
ends in another `CaughtUp` with its name; until the first of these nothing is known of its gangs, and who decides has to
leave them alone.

Which cluster a gang is in is known from its start, and from the reports of it. A gang of which nothing is known is
looked for in all clusters that have caught up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from services.scheduler.ports.engine import Engine, Inventory, StartRefusedError
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import CaughtUp, Observation
from services.scheduler.ports.sandboxes import ExecRefusedError, Execution, KeptSandbox
from shared.clock import Clock
from shared.ids import GangId
from shared.tasks import end

RETRY_PAUSE_S: Final = 1.0


class ClusterEngines:
    """The engines of all clusters, by the names of these; the first is the one that jobs get which name none."""

    def __init__(self, engines: Mapping[str, Engine], clock: Clock) -> None:
        self._engines = dict(engines)
        self._clock = clock
        self._cluster_of: dict[str, str] = {}
        self._caught_up: set[str] = set()
        self._log = structlog.get_logger(service="scheduler")

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, the first one first."""
        return tuple(self._engines)

    @property
    def lays_data(self) -> bool:
        """The same for all clusters: engines of one kind run in one scheduler."""
        return all(engine.lays_data for engine in self._engines.values())

    def of(self, cluster: str) -> Engine:
        """The engine of a cluster; raises StartRefusedError where there is no such cluster any more."""
        engine = self._engines.get(cluster)
        if engine is None:
            known = ", ".join(self._engines)
            raise StartRefusedError(f"this platform has no cluster {cluster!r} any more; it has: {known}")
        return engine

    async def inventory(self) -> Inventory:
        """The nodes of all clusters, with what the first one can do; waits for each of them."""
        first, *others = [await engine.inventory() for engine in self._engines.values()]
        return replace(first, nodes=(*first.nodes, *(node for inventory in others for node in inventory.nodes)))

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran, in the gang's cluster. Raises StartRefusedError."""
        engine = self.of(gang.cluster)
        self._cluster_of[gang.id] = gang.cluster
        await engine.start(gang)

    async def observe(self) -> AsyncIterator[Observation]:
        """What is known of every cluster's gangs, a `CaughtUp` for each, and what happens, without end."""
        self._caught_up.clear()
        reports: asyncio.Queue[Observation] = asyncio.Queue()
        following = [asyncio.create_task(self._follow(cluster, reports)) for cluster in self._engines]
        try:
            while True:
                yield await reports.get()
        finally:
            await end(*following)

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        """Have every replica end within the grace; False where no cluster knows the gang."""
        stopped = [await engine.stop(gang_id, grace_s) for engine in self._candidates(gang_id)]
        return any(stopped)

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        """Report the gang no more, and remove it once its logs are shipped."""
        for engine in self._candidates(gang_id):
            await engine.forget(gang_id, keep_until)
        self._cluster_of.pop(gang_id, None)

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        """One more command for the sandbox of a running replica; raises ExecRefusedError.

        Who does not lead follows no reports, and asks one cluster after the other.
        """
        known = self._cluster_of.get(gang_id)
        for engine in [self._engines[known]] if known else self._engines.values():
            try:
                return await engine.execute(gang_id, role, index, command, limit_s)
            except ExecRefusedError:
                if known or len(self._engines) == 1:
                    raise
        raise ExecRefusedError(f"nothing is known of gang {gang_id} now; its cluster may not answer")

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of attempts of the job that have ended."""
        return tuple(held for engine in self._engines.values() for held in engine.kept(job))

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:
        """Why replicas of the gang do not run yet."""
        return {key: why for engine in self._engines.values() for key, why in engine.holdups(gang_id).items()}

    def _candidates(self, gang: GangId) -> Iterator[Engine]:
        """The cluster that has the gang, or those that may have it."""
        known = self._cluster_of.get(gang)
        for cluster, engine in self._engines.items():
            if cluster == known or (known is None and cluster in self._caught_up):
                yield engine

    async def _follow(self, cluster: str, reports: asyncio.Queue[Observation]) -> None:
        """Bring the reports of one cluster; a stream that breaks is begun anew."""
        while True:
            try:
                async for observation in self._engines[cluster].observe():
                    reports.put_nowait(self._noted(cluster, observation))
                self._log.error("engine_reports_ended", cluster=cluster)
            except Exception:  # noqa: BLE001  # a cluster that broke is asked anew, and the others go on
                self._log.exception("engine_reports_broken", cluster=cluster)
            await self._clock.sleep(RETRY_PAUSE_S)

    def _noted(self, cluster: str, observation: Observation) -> Observation:
        """The report, once it is noted whose gangs it speaks of."""
        if isinstance(observation, CaughtUp):
            self._cluster_of.update(dict.fromkeys(observation.gangs, cluster))
            self._caught_up.add(cluster)
            return replace(observation, cluster=cluster if len(self._engines) > 1 else observation.cluster)
        self._cluster_of[observation.replica.gang] = cluster
        return observation
