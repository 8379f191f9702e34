"""Having a placed gang started, with what it needs fetched before, and what it wrote brought away after its end.

Both may take long, so they can be abandoned at any moment: by a stop of the job, or by the end of the platform, whose
next start continues or repeats them. Once the engine has been called, it completes what it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from services.scheduler.domain.choosing import Among
from services.scheduler.domain.starting import gang_start, places_of_users
from services.scheduler.engines.clusters import ClusterEngines
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangStart
from services.scheduler.sources.code import CodeSource
from services.scheduler.sources.data import DataSource
from services.scheduler.sources.job_secrets import JobSecrets
from shared.catalog import CatalogWatch, Pool
from shared.ids import gang_id
from shared.jobs import Job


class GangStarter:
    """Prepares gangs and hands them to the engine; `among` tells for a job which nodes others may choose among."""

    def __init__(
        self,
        engine: ClusterEngines,
        catalog: CatalogWatch,
        among: Callable[[Job], Mapping[str, Among]],
        code: CodeSource,
        data: DataSource,
        secrets: JobSecrets,
    ) -> None:
        self._engine = engine
        self._among = among
        self._catalog = catalog
        self._code = code
        self._data = data
        self._secrets = secrets
        self._saving: dict[str, asyncio.Task[None]] = {}
        self._preparing: dict[str, asyncio.Task[GangStart]] = {}
        self._named_hosts: dict[str, bool] = {}

    async def start(self, job: Job) -> None:
        """Start the job's present attempt, unless it is abandoned; raises StartRefusedError where it cannot be."""
        gang = gang_id(job.id, job.attempt.number)
        async with AsyncExitStack() as stack:
            preparing = self._preparing[gang] = asyncio.create_task(self._prepare(job, stack))
            try:
                await asyncio.wait({preparing})
            finally:
                preparing.cancel()
                del self._preparing[gang]
            if not preparing.cancelled():
                await self._engine.start(preparing.result())

    async def save(self, gang: str) -> None:
        """Bring away what the gang wrote, unless it is abandoned."""
        saving = self._saving[gang] = asyncio.create_task(self._data.save(gang))
        try:
            await asyncio.wait({saving})
        finally:
            saving.cancel()
            del self._saving[gang]
        if not saving.cancelled():
            saving.result()

    def is_unsaved(self, gang: str) -> bool:
        """Whether the gang may have written something that has to be brought away."""
        return self._data.is_unsaved(gang)

    def save_problem(self, gang: str) -> str:
        """What of it is lost nevertheless; empty where nothing is."""
        return self._data.problem(gang)

    def abandon(self, gang: str) -> None:
        """Prepare the gang no more; it is not started then."""
        if gang in self._preparing:
            self._preparing[gang].cancel()

    def abandon_all(self) -> None:
        """Prepare and save nothing more."""
        for task in (*self._preparing.values(), *self._saving.values()):
            task.cancel()

    async def _prepare(self, job: Job, stack: AsyncExitStack) -> GangStart:
        placement = job.attempt.placement
        if placement is None:
            raise StartRefusedError("the attempt has no placement")
        named_hosts = await self._has_named_hosts(placement.cluster)
        lays = self._engine.of(placement.cluster).lays_data
        code = await stack.enter_async_context(self._code.of(job, laid=lays))
        data = await self._data.lay(job) if lays else {}
        secrets = await self._secrets.of(job)
        pools = {pool.name: pool for pool in self._catalog.view.all(Pool)}
        own = (pools.get(role.pool_name) for role in job.submitted.resolved.roles)
        others_choose = any(pool is not None and pool.spec.chooser != "Trainmaster" for pool in own)
        return gang_start(
            job,
            placement,
            code,
            secrets,
            data=data,
            named_hosts=named_hosts,
            hidden=places_of_users(self._catalog.view),
            pull_secret=None if lays else await self._secrets.of_image(job),
            pools=pools,
            among=self._among(job) if others_choose else None,
        )

    async def _has_named_hosts(self, cluster: str) -> bool:
        """An engine that cannot lay mounts cannot lay an /etc/hosts either."""
        if cluster not in self._named_hosts:
            self._named_hosts[cluster] = not (await self._engine.of(cluster).inventory()).no_mounts_because
        return self._named_hosts[cluster]
