"""Data at `s3://`: brought to this machine before the start of a gang, and what it wrote brought back after its end.

Each attempt has a directory of its own, `<directory>/<gang>`, with a `Mirror` for each mount. It stays until the engine
has let go of the gang, since TensorBoard's files may be on it, and until what was written is saved. Saving is repeated
for a quarter of an hour and more where the object store is in trouble; after that the attempt ends as one that the
platform has lost, and the directory is kept for a week.

All state is on disk: a platform that was killed continues or repeats. What was laid but never sealed by a manifest is
not trusted after a restart of the machine, which may have lost the contents of files while keeping their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import structlog

from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.sources.mirror import Mirror, MirrorError, Plan, Progress, plan_of
from services.scheduler.sources.object_store import Bucket, StoreError
from shared.asset_settings import S3Options
from shared.catalog.fields import S3_SCHEME, bucket_and_key
from shared.clock import Clock
from shared.events import ResolvedMount
from shared.ids import gang_id
from shared.jobs import Job
from shared.trees import remove_tree

LAY_TRIES: Final = 3
SAVE_TRIES: Final = 90
PAUSE_S: Final = 10.0
RESCUE_S: Final = 7 * 24 * 3600.0
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class DataSource:
    """Lays and saves the data of gangs; without options for S3 it refuses."""

    def __init__(self, directory: Path, options: S3Options | None, clock: Clock) -> None:
        self._directory = directory
        self._options = options
        self._clock = clock
        self._progress: dict[str, Progress] = {}
        self._log = structlog.get_logger(service="scheduler")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {path.name: tuple(_mirrors(path)) for path in directory.iterdir()}
        self._unsaved = {gang for gang, mirrors in kept.items() if any(each.is_unsaved for each in mirrors)}
        self._problems = {gang: each.problem for gang, mirrors in kept.items() for each in mirrors if each.problem}

    def progress(self, gang: str) -> str:
        """What is being done for the gang; empty where nothing is."""
        return str(self._progress.get(gang, ""))

    def is_unsaved(self, gang: str) -> bool:
        """Whether the gang may have written something that has yet to be saved."""
        return gang in self._unsaved

    def problem(self, gang: str) -> str:
        """Why something could not be saved; empty where nothing is lost."""
        return self._problems.get(gang, "")

    async def lay(self, job: Job) -> dict[str, Path]:
        """The directory for each mount at `s3://`, by its path; raises StartRefusedError."""
        gang = gang_id(job.id, job.attempt.number)
        mounts = {index: mount for index, mount in enumerate(job.submitted.resolved.mounts) if _is_remote(mount)}
        if not mounts:
            return {}
        directory = self._directory / gang
        mirrors = {index: Mirror(directory, index) for index in mounts}
        missing = {mirror: mounts[index] for index, mirror in mirrors.items() if not mirror.is_laid}
        if missing:
            await asyncio.to_thread(_begin, directory, keep=len(missing) < len(mirrors))
            await self._lay(gang, missing)
        if any(mirror.is_unsaved for mirror in mirrors.values()):
            self._unsaved.add(gang)
        return {mounts[index].mount_path: mirror.directory for index, mirror in mirrors.items()}

    async def save(self, gang: str) -> None:
        """Bring what the gang wrote back, or give it up after a while; `is_unsaved` is false then."""
        progress = self._progress[gang] = Progress("saving")
        try:
            for mirror in _mirrors(self._directory / gang):
                if mirror.is_unsaved:
                    await self._save(gang, mirror, progress)
        finally:
            del self._progress[gang]
        self._unsaved.discard(gang)
        self._log.info("data_saved", gang=gang, size_bytes=progress.done_bytes, problem=self.problem(gang))

    async def sweep(self, is_over: Callable[[str], bool]) -> None:
        """Remove directories of gangs that nobody needs any more."""
        for path in list(self._directory.iterdir()):
            if path.name not in self._unsaved and path.name not in self._progress and is_over(path.name):
                await asyncio.to_thread(_remove, path, self._clock.now().timestamp())

    async def _lay(self, gang: str, mounts: Mapping[Mirror, ResolvedMount]) -> None:
        progress = self._progress[gang] = Progress("synchronising")
        try:
            plans = {mirror: await self._plan(mount) for mirror, mount in mounts.items()}
            progress.total_bytes = sum(plan.size_bytes for plan in plans.values())
            self._log.info("data_synchronising", gang=gang, size_bytes=progress.total_bytes)
            for mirror, plan in plans.items():
                await self._bring(mirror, mounts[mirror], plan, progress)
            self._log.info("data_synchronised", gang=gang, size_bytes=progress.total_bytes)
        finally:
            del self._progress[gang]

    async def _plan(self, mount: ResolvedMount) -> Plan:
        bucket = self._bucket(mount.uri)
        plan: Plan | None = None

        async def look() -> None:
            nonlocal plan
            plan = plan_of(await bucket.list())

        await self._insist(mount, look)
        if plan is None or (mount.read_only and not plan.files):
            raise StartRefusedError(f"{mount.mount_path}: there is nothing at {mount.uri}")
        return plan

    async def _bring(self, mirror: Mirror, mount: ResolvedMount, plan: Plan, progress: Progress) -> None:
        bucket = self._bucket(mount.uri)
        before = progress.done_bytes

        async def lay() -> None:
            progress.done_bytes = before
            await mirror.lay(bucket, plan, mount.uri, progress, read_only=mount.read_only)

        await self._insist(mount, lay)

    async def _insist(self, mount: ResolvedMount, work: Callable[[], Awaitable[None]]) -> None:
        for left in reversed(range(LAY_TRIES)):
            try:
                await work()
            except (StoreError, MirrorError, OSError) as error:
                if not left or isinstance(error, MirrorError):
                    sentence = f"{mount.mount_path}: {mount.uri} cannot be synchronised: {error}"
                    raise StartRefusedError(sentence) from error
                self._log.warning("data_synchronising_failed", uri=mount.uri, reason=str(error))
                await self._clock.sleep(PAUSE_S)
            else:
                return

    async def _save(self, gang: str, mirror: Mirror, progress: Progress) -> None:
        for left in reversed(range(SAVE_TRIES)):
            try:
                await mirror.save(self._bucket(mirror.uri), progress)
            except (StoreError, StartRefusedError, OSError, ValueError) as error:
                self._log.warning("data_saving_failed", gang=gang, uri=mirror.uri, reason=str(error))
                if not left:
                    problem = f"what was written to {mirror.uri} could not be saved: {error}"
                    self._problems[gang] = problem
                    mirror.give_up(problem)
                    return
                await self._clock.sleep(PAUSE_S)
            else:
                return

    def _bucket(self, uri: str) -> Bucket:
        if self._options is None:
            raise StartRefusedError(f"{uri} cannot be reached: this platform has no object store any more")
        return Bucket(self._options, *bucket_and_key(uri))


def _is_remote(mount: ResolvedMount) -> bool:
    return mount.uri.startswith(S3_SCHEME)


def _mirrors(directory: Path) -> Iterator[Mirror]:
    """Mirrors that were laid."""
    for manifest in sorted(directory.glob("*.json")):
        if manifest.stem.isdigit():
            yield Mirror(directory, int(manifest.stem))


def _begin(directory: Path, *, keep: bool) -> None:
    """Make the gang's directory, anew where the machine was started since it was made, unless a part is laid."""
    boot_id, note = BOOT_ID.read_text(), directory / "boot"
    if not keep and directory.exists() and (not note.exists() or note.read_text() != boot_id):
        remove_tree(directory)
    directory.mkdir(mode=0o700, exist_ok=True)
    note.write_text(boot_id)


def _remove(directory: Path, now_s: float) -> None:
    failed = any(mirror.problem for mirror in _mirrors(directory))
    if not failed or now_s - directory.stat().st_mtime > RESCUE_S:
        remove_tree(directory)
