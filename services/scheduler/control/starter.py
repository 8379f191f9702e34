"""Having a placed gang started: what it needs is fetched for the moment of the start, the engine keeps a copy.

Fetching may take long, so it can be abandoned at any moment: by a stop of the job, or by the end of the platform, whose
next start fetches again. Once the engine has been called, it completes what it began.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from services.scheduler.domain.starting import gang_start
from services.scheduler.ports import Engine, GangStart, StartRefusedError
from services.scheduler.sources.code import CodeSource
from services.scheduler.sources.job_secrets import JobSecrets
from shared.ids import gang_id
from shared.jobs import Job


class GangStarter:
    """Prepares gangs and hands them to the engine."""

    def __init__(self, engine: Engine, code: CodeSource, secrets: JobSecrets) -> None:
        self._engine = engine
        self._code = code
        self._secrets = secrets
        self._preparing: dict[str, asyncio.Task[GangStart]] = {}
        self._named_hosts: bool | None = None

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

    def abandon(self, gang: str) -> None:
        """Prepare the gang no more; it is not started then."""
        if gang in self._preparing:
            self._preparing[gang].cancel()

    def abandon_all(self) -> None:
        """Prepare nothing more."""
        for preparing in self._preparing.values():
            preparing.cancel()

    async def _prepare(self, job: Job, stack: AsyncExitStack) -> GangStart:
        placement = job.attempt.placement
        if placement is None:
            raise StartRefusedError("the attempt has no placement")
        named_hosts = await self._has_named_hosts()
        code = await stack.enter_async_context(self._code.of(job))
        secrets = await self._secrets.of(job)
        return gang_start(job, placement, code, secrets, named_hosts=named_hosts)

    async def _has_named_hosts(self) -> bool:
        """An engine that cannot lay mounts cannot lay an /etc/hosts either."""
        if self._named_hosts is None:
            self._named_hosts = not (await self._engine.inventory()).no_mounts_because
        return self._named_hosts
