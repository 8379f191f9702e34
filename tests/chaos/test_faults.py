"""What is around the platform fails: disk, port, NATS, its own files.

Each gives a clear message, and service again when the cause is gone, with nothing lost.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.chaos.storm import VICTIMS
from tests.support.platform import Platform, await_, job_document

NATS_AWAY_S = float(os.environ.get("CHAOS_NATS_AWAY_S", "30"))

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(300 + 2 * NATS_AWAY_S)]

STEADY = 'for i in $(seq 1 {count}); do echo "line $i"; sleep 0.1; done'


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, count + 1))


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """A platform that is not up yet."""
    platform = Platform(tmp_path / "home")
    yield platform
    if platform.pid is not None:
        platform.cli("down", "--home", str(platform.home), "--replicas", check=False)


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[None]:
    """A file system of that size, for as long as the block lasts."""
    at.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tm", str(at)], check=False)
    if made.returncode:
        pytest.skip("mounting a small disk takes root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """The directory cannot be written within the block."""
    subprocess.run(["mount", "--bind", str(directory), str(directory)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(directory)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 64):
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(bytes(size))


def up_fails(platform: Platform) -> str:
    """What `up` says where it cannot start."""
    platform.home.parent.mkdir(exist_ok=True)
    arguments = ("up", "--home", str(platform.home), "--port", str(platform.port), "--detach")
    done = platform.cli(*arguments, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def well_again(platform: Platform) -> None:
    """The platform takes a job and runs it to its end."""
    job = platform.submit(job_document(f"after-{time.monotonic_ns()}", "echo well"))
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    assert platform.log(job) == b"well\n"


def is_ready(platform: Platform) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{platform.port}/readyz", timeout=10, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


class TestDisk:
    def test_a_full_disk_refuses_what_cannot_be_kept_and_loses_nothing(self, platform: Platform) -> None:
        with small_disk(platform.home, 192):
            platform.up()
            # A line that a replica prints while the disk is full is lost to the replica itself, so it waits meanwhile.
            before = platform.submit(job_document("before", "sleep 60; " + STEADY.format(count=100)))
            platform.await_state(before, "Running")
            ballast = platform.home / "ballast"
            fill(ballast)
            with platform.http as http:
                answer = http.post("/v1/jobs", json=job_document("refused", "echo never"), timeout=90)
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
            ballast.unlink()
            if platform.pid is None:
                platform.up()
            await_("the platform is ready", lambda: is_ready(platform), 90)
            well_again(platform)
            assert platform.await_end(before, 120)["status"]["state"] == "Succeeded"
            assert platform.log(before) == lines(100)
            platform.cli("down", "--home", str(platform.home), "--replicas")

    def test_a_home_that_cannot_be_written_is_named(self, platform: Platform) -> None:
        with small_disk(platform.home, 192):
            platform.up()
            job = platform.submit(job_document("kept", "echo kept"))
            platform.await_end(job)
            platform.log(job)
            platform.down()
            with read_only(platform.home):
                message = up_fails(platform)
            assert str(platform.home) in message
            assert "Read-only file system" in message
            platform.up()
            assert platform.log(job) == b"kept\n"
            well_again(platform)
            platform.cli("down", "--home", str(platform.home), "--replicas")


def test_a_port_that_is_taken_is_named(platform: Platform) -> None:
    with socket.create_server(("127.0.0.1", platform.port)):
        assert str(platform.port) in up_fails(platform)
    platform.up()
    well_again(platform)


def test_nats_may_be_away_for_a_while(platform: Platform) -> None:
    platform.up()
    job = platform.submit(job_document("runs-on", STEADY.format(count=150)))
    platform.await_state(job, "Running")
    nats = platform.child(VICTIMS["nats"])
    assert nats is not None
    os.kill(nats, signal.SIGSTOP)
    try:
        time.sleep(NATS_AWAY_S / 2)
        assert not is_ready(platform)
        time.sleep(NATS_AWAY_S / 2)
    finally:
        os.kill(nats, signal.SIGCONT)
    assert platform.await_end(job, 120)["status"]["state"] == "Succeeded"
    assert platform.log(job) == lines(150)
    await_("the platform is ready", lambda: is_ready(platform))
    well_again(platform)


@pytest.mark.parametrize("damage", ["garbage", "truncated", "zeroed-middle", "empty", "gone"])
def test_a_damaged_read_model_is_rebuilt(platform: Platform, damage: str) -> None:
    platform.up()
    ended = platform.submit(job_document("ended", "echo over"))
    platform.await_end(ended)
    running = platform.submit(job_document("running", STEADY.format(count=100)))
    platform.await_state(running, "Running")
    platform.kill()
    for file in (platform.home / "readmodels").glob("*.sqlite"):
        spoil(file, damage)
    platform.up()
    assert platform.job(ended)["status"]["state"] == "Succeeded"
    assert platform.await_end(running)["status"]["state"] == "Succeeded"
    assert platform.log(running) == lines(100)
    with platform.http as http:
        assert {job["metadata"]["id"] for job in http.get("/v1/jobs").json()["items"]} == {ended, running}


def spoil(file: Path, damage: str) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that the file itself has everything
    content = bytearray(file.read_bytes())
    match damage:
        case "garbage":
            content[:] = os.urandom(8192)
        case "truncated":
            del content[len(content) * 2 // 3 :]
        case "zeroed-middle":
            content[4096:-4096] = bytes(len(content) - 8192)
        case "empty":
            content.clear()
    file.write_bytes(content)
    if damage == "gone":
        file.unlink()
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


class TestHalfWrittenFiles:
    """What a crash in the middle of a write leaves behind, laid by hand while the platform is down."""

    @pytest.fixture
    def crashed(self, platform: Platform) -> tuple[Platform, str, Path]:
        """A platform that was killed while a job runs: platform, job, the job's replica directory."""
        platform.up()
        job = platform.submit(job_document("survivor", STEADY.format(count=60)))
        platform.await_state(job, "Running")
        platform.kill()
        return platform, job, platform.home / "gangs" / f"{job}-1" / "replicas" / "worker-0"

    def assert_nothing_is_lost(self, platform: Platform, job: str) -> None:
        platform.up()
        assert platform.await_end(job)["status"]["state"] == "Succeeded"
        assert platform.log(job) == lines(60)
        well_again(platform)
        await_("no directory is left", lambda: not list((platform.home / "gangs").glob("*tj-*")), 60)

    def test_gangs_that_were_half_made_or_half_removed(self, crashed: tuple[Platform, str, Path]) -> None:
        platform, job, _replica = crashed
        gangs = platform.home / "gangs"
        for name in (".new-tj-aaaaaaaaaaaa-1", ".gone-tj-bbbbbbbbbbbb-1", "tj-cccccccccccc-1", "tj-dddddddddddd-1"):
            (gangs / name / "replicas" / "worker-0").mkdir(parents=True)
        (gangs / "tj-cccccccccccc-1" / "gang.json.partial").write_text('{"job": "tj-c')
        (gangs / "tj-dddddddddddd-1" / "gang.json").write_text('{"job": "tj-d')
        self.assert_nothing_is_lost(platform, job)

    def test_a_gang_whose_replica_was_not_made_ready(self, crashed: tuple[Platform, str, Path]) -> None:
        platform, job, replica = crashed
        half = replica.with_name("worker-1")
        half.mkdir()
        (half / "ship.json.partial").write_text('{"job"')
        self.assert_nothing_is_lost(platform, job)

    def test_the_agents_memory_and_the_announcement_are_torn(self, crashed: tuple[Platform, str, Path]) -> None:
        platform, job, _replica = crashed
        for file in [file for file in (platform.home / "agent").rglob("*") if file.is_file()]:
            file.write_bytes(file.read_bytes()[:7])
        (platform.home / "platform.json").write_text('{"pid": 1')
        self.assert_nothing_is_lost(platform, job)

    def test_the_write_ahead_log_ends_in_the_middle_of_a_record(self, crashed: tuple[Platform, str, Path]) -> None:
        platform, job, _replica = crashed
        for file in (platform.home / "logs").rglob("*.wal"):
            with file.open("ab") as tail:
                tail.write(os.urandom(100))
        self.assert_nothing_is_lost(platform, job)

    @pytest.mark.parametrize("content", [b"", b"\0" * 64, b'{"wait_st'])
    def test_an_end_that_was_not_written_down_whole(self, crashed: tuple[Platform, str, Path], content: bytes) -> None:
        platform, job, replica = crashed
        os.kill(runner_of(job), signal.SIGKILL)
        await_("the replica is gone", lambda: not platform.replica_processes())
        (replica / "exit.json").write_bytes(content)
        platform.up()
        status = platform.await_end(job)["status"]
        assert status["state"] == "Failed"
        assert "lost" in status["message"]
        assert lines(60).startswith(platform.log(job))
        well_again(platform)


def runner_of(job: str) -> int:
    """The topmost process on this machine that belongs to the job: its end is the end of the others."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    runners = {pid for pid in pids if _runs(pid, job)}
    (top,) = (pid for pid in runners if _parent(pid) not in runners)
    return top


def _runs(pid: int, job: str) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        command = (process / "cmdline").read_bytes()
        return b"runner.py" in command and any(f"{job}-1".encode() in link for link in _open_files(process))
    except OSError:
        return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _open_files(process: Path) -> Iterator[bytes]:
    for entry in (process / "fd").iterdir():
        try:
            yield os.fsencode(entry.readlink())
        except OSError:
            continue
