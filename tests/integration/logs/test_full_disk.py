"""A disk that is really full: the service in a sandbox of its own whose home is a small file system in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.bus import Bus
from shared.logs_wire import Chunk, Kept
from tests.support.logs import announcements, keeping_logs, log_of, log_settings, publish, submit
from tests.support.services import eventually

DISK_BYTES = 12 * 1024 * 1024
BWRAP = shutil.which("bwrap")


def sandboxed(*command: str, disk: Path) -> list[str]:
    small = ["--dev-bind", "/", "/", "--size", str(DISK_BYTES), "--tmpfs", str(disk)]
    return [str(BWRAP), "--die-with-parent", *small, *command]


def works() -> bool:
    if BWRAP is None:
        return False
    tried = subprocess.run(sandboxed("true", disk=Path("/mnt")), capture_output=True, timeout=20, check=False)
    return tried.returncode == 0


pytestmark = pytest.mark.skipif(not works(), reason="bubblewrap cannot make a small file system here")


class SmallDisk:
    """The home of a running service, which it alone sees."""

    def __init__(self, home: Path, process: asyncio.subprocess.Process, complaints: Path) -> None:
        self.process = process
        self._home = home
        self._complaints = complaints

    @property
    def inside(self) -> Path:
        """The home as the service sees it, which is the child of bubblewrap."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return Path(f"/proc/{child}/root{self._home}")

    def fill(self) -> None:
        with (self.inside / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass

    def free(self) -> None:
        (self.inside / "filler").unlink()

    async def until_told(self, *events: str) -> None:
        async def look() -> bool | None:
            told = self._complaints.read_text()
            return True if all(event in told for event in events) else None

        await eventually(look, 40)


@asynccontextmanager
async def small_disk(bus: Bus, tmp_path: Path) -> AsyncIterator[SmallDisk]:
    home, complaints = tmp_path / "small", tmp_path / "complaints"
    home.mkdir()
    settings = log_settings(tmp_path, bus.options.url)
    environment = {
        **os.environ,
        "TRAINMASTER_HOME": str(home),
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
    }
    with complaints.open("wb") as file:
        command = sandboxed(sys.executable, "-m", "services.logs", disk=home)
        process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=file)
    try:
        yield SmallDisk(home, process, complaints)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def until_kept(heard: list[Kept], job: str, size: int) -> None:
    async def look() -> bool | None:
        return True if any((each.file.replica.job, each.kept) == (job, size) for each in heard) else None

    await eventually(look, 40)


async def test_what_a_full_disk_did_not_take_is_taken_once_there_is_room_and_nothing_ends(bus: Bus, tmp_path: Path):
    heard, piece = await announcements(bus), os.urandom(60_000)
    job = await submit(bus)
    async with small_disk(bus, tmp_path) as disk:
        await publish(bus, Chunk(log_of(job), 0, b"before\n"))
        await until_kept(heard, job, 7)
        disk.fill()
        later = await submit(bus, "later")
        await publish(bus, *(Chunk(log_of(job), 7 + at * len(piece), piece) for at in range(4)))
        await publish(bus, Chunk(log_of(later), 0, b"later\n"))
        await disk.until_told("chunks_not_kept", "readmodel_not_written")
        disk.free()
        await until_kept(heard, job, 7 + 4 * len(piece))
        await until_kept(heard, later, 6)
        assert disk.process.returncode is None
        shutil.copytree(disk.inside / "logs", tmp_path / "logs")
    async with keeping_logs(bus, tmp_path) as kept:
        assert await kept.raw(job) == b"before\n" + 4 * piece
        assert await kept.raw(later) == b"later\n"
