"""A job's code on its way to the engine: fetched for the moment of the start, the engine keeps a copy.

Which commit of a repository an attempt runs is put on record before anything of it can start, and is read from there
when the start is repeated: a branch may have moved in between, the attempt's code may not.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from services.scheduler.domain.starting import stored_code
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import Code, CodeArchive, CodePacked, CodeUpload
from services.scheduler.sources.gang_code import GangCode
from services.scheduler.sources.git_command import DEFAULT_USERNAME, Credentials, GitError
from services.scheduler.sources.job_secrets import JobSecrets
from services.scheduler.sources.repositories import Remote, Repositories, Repository
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.catalog.fields import file_path
from shared.clock import Clock
from shared.errors import NotFoundError
from shared.events import CodeResolved, Event, ResolvedCode
from shared.ids import gang_id
from shared.jobs import Job
from shared.units import KIB

ARCHIVE: Final = "code.tar.gz"
# What fits into a ConfigMap, which has 1 MiB.
PACKED_MAX_BYTES: Final = 900 * KIB


class CodeSource:
    """Gets code of every kind; `scratch` is a directory of its own for archives on their way."""

    def __init__(
        self,
        bus: Bus,
        blobs: Blobs,
        repositories: Repositories,
        secrets: JobSecrets,
        clock: Clock,
        scratch: Path,
        gang_code: GangCode,
    ) -> None:
        self._bus = bus
        self._blobs = blobs
        self._repositories = repositories
        self._secrets = secrets
        self._clock = clock
        self._scratch = scratch
        self._gang_code = gang_code
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)

    @asynccontextmanager
    async def of(self, job: Job, *, laid: bool = True) -> AsyncIterator[Code | None]:
        """The code of the job's present attempt, for a while; raises StartRefusedError where it cannot be had.

        What is not to be `laid` on this machine is handed on whole where it is small, else kept where pods get it.
        """
        code = job.submitted.resolved.code
        if code is None or not (code.kind == "git" or code.digest):
            yield stored_code(job)
            return
        with tempfile.TemporaryDirectory(dir=self._scratch) as directory:
            archive = Path(directory) / ARCHIVE
            if code.kind == "git":
                await self._commit(job, code, archive)
            else:
                await self._upload(code, archive)
            yield CodeArchive(archive) if laid else await self._handed_on(job, archive)

    async def _handed_on(self, job: Job, archive: Path) -> CodePacked | CodeUpload:
        if (await asyncio.to_thread(archive.stat)).st_size <= PACKED_MAX_BYTES:
            return CodePacked(await asyncio.to_thread(archive.read_bytes))
        return await self._gang_code.keep(gang_id(job.id, job.attempt.number), archive)

    async def _upload(self, code: ResolvedCode, archive: Path) -> None:
        try:
            await self._blobs.fetch(code.digest or "", archive)
        except NotFoundError as error:
            raise StartRefusedError(f"the uploaded code is gone: {error.message}") from error

    async def _commit(self, job: Job, code: ResolvedCode, archive: Path) -> None:
        try:
            async with self._repositories.open(await self._remote(code)) as repository:
                commit = await self._settled(job, code, repository)
                await repository.archive(commit, archive)
        except GitError as error:
            raise StartRefusedError(f"code from {code.uri}: {error}") from error

    async def _remote(self, code: ResolvedCode) -> Remote:
        owner, secret = code.owner or "", code.secret or ""
        root = Path(file_path(code.root)) if code.root else None
        if not secret:
            return Remote(code.uri or "", root=root)
        password = (await self._secrets.value(secret, owner)).rstrip("\r\n")
        if not password or "\n" in password:
            raise StartRefusedError(f"the secret {secret!r} is no password or token: it has to be a single line")
        credentials = Credentials(code.username or DEFAULT_USERNAME, password)
        return Remote(code.uri or "", owner, secret, credentials, root)

    async def _settled(self, job: Job, code: ResolvedCode, repository: Repository) -> str:
        """The commit on record for this attempt; the one that the revision means now goes on record first."""
        last = await self._bus.history.last_event(f"tm.job.{job.id}.{CodeResolved.KIND}.{CodeResolved.SUFFIX}")
        if last is not None and last.event.attempt == job.attempt.number and isinstance(last.event.data, CodeResolved):
            return last.event.data.revision
        commit = await repository.commit(code.revision)
        await self._bus.observe(self._event(job, CodeResolved(uri=code.uri or "", revision=commit)))
        return commit

    def _event(self, job: Job, payload: CodeResolved) -> Event:
        return Event.of(
            payload,
            job=job.id,
            attempt=job.attempt.number,
            time=self._clock.now(),
            owner=job.owner,
            project=job.project,
            traceparent=job.traceparent,
        )
