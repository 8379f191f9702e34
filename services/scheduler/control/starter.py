"""Having a placed gang started: its uploaded code is fetched for the moment of the start, the engine keeps a copy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.scheduler.control.job_secrets import JobSecrets
from services.scheduler.domain.starting import gang_start, stored_code
from services.scheduler.ports import Code, CodeArchive, Engine, StartRefusedError
from shared.bus.blobs import Blobs
from shared.errors import NotFoundError
from shared.jobs import Job


class GangStarter:
    """Prepares gangs and hands them to the engine; `scratch` is a directory of its own for archives on their way."""

    def __init__(self, engine: Engine, blobs: Blobs, secrets: JobSecrets, scratch: Path) -> None:
        self._engine = engine
        self._blobs = blobs
        self._secrets = secrets
        self._scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        self._named_hosts: bool | None = None

    async def start(self, job: Job) -> None:
        """Start the job's present attempt; raises StartRefusedError where that cannot work, now or later."""
        placement = job.attempt.placement
        if placement is None:
            raise StartRefusedError("the attempt has no placement")
        named_hosts = await self._has_named_hosts()
        secrets = await self._secrets.of(job)
        async with self._code(job) as code:
            await self._engine.start(gang_start(job, placement, code, secrets, named_hosts=named_hosts))

    async def _has_named_hosts(self) -> bool:
        """An engine that cannot lay mounts cannot lay an /etc/hosts either."""
        if self._named_hosts is None:
            self._named_hosts = not (await self._engine.inventory()).no_mounts_because
        return self._named_hosts

    @asynccontextmanager
    async def _code(self, job: Job) -> AsyncIterator[Code | None]:
        resolved = job.submitted.resolved.code
        if resolved is None or resolved.digest is None:
            yield stored_code(job)
            return
        with tempfile.TemporaryDirectory(dir=self._scratch) as directory:
            archive = Path(directory) / "code.tar.gz"
            try:
                await self._blobs.fetch(resolved.digest, archive)
            except NotFoundError as error:
                raise StartRefusedError(f"the uploaded code is gone: {error.message}") from error
            yield CodeArchive(archive)
