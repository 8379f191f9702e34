"""The platform run by an ordinary user: the same sandbox, by way of a user namespace."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # whoever cannot read root's interpreter cannot import it later
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.gangs import CodeInline, GangMount
from services.scheduler.ports.sandboxes import ExecEnded
from tests.support.local_engine import bench, gang_of, kill_runners, log_of

NOBODY = 65534
PYTHON = Path("/usr/bin/python3")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs an interpreter that everybody may run"),
]


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of the ordinary user."""
    path = Path(tempfile.mkdtemp(prefix="tm-theirs-", dir="/var/tmp"))
    os.chown(path, NOBODY, NOBODY)
    yield path
    kill_runners(path)
    shutil.rmtree(path)


def test_mounts_names_and_hiding_work_for_an_ordinary_user(theirs: Path):
    tries = "cat /proc/1/environ /proc/1/mem; ls /proc/1/fd/; ls -A $HOME_OF_PLATFORM; touch /usr/x /etc/ssl/x"
    command = f"id -u; hostname; pwd; cat train.py; echo hello > /mnt/absent/deep/file; ({tries}) 2>/dev/null; exit 9"
    gang = gang_of(
        command,
        env={"HOME_OF_PLATFORM": str(theirs / "home")},
        mounts=(GangMount(theirs / "data", "/mnt/absent/deep"),),
        code=CodeInline({"train.py": "print()\n"}),
    )

    async def run() -> tuple[str, object]:
        (theirs / "data").mkdir()
        async with bench(LocalSettings(theirs / "home", path_variable=os.defpath, python=PYTHON)) as desk:
            [end] = await desk.run(gang)
            return desk.engine.no_sandbox_because, end.code

    assert as_nobody(run) == "('', 9)"
    assert log_of(theirs / "home", gang).splitlines() == [
        str(NOBODY),
        gang.replica_id(gang.replicas[0]),
        "/code",
        "print()",
    ]
    assert (theirs / "data/file").read_text() == "hello\n"
    assert not Path("/mnt/absent").exists()


def test_a_command_can_be_run_in_the_sandbox_by_an_ordinary_user(theirs: Path):
    gang = gang_of("while test ! -e /tmp/go; do sleep 0.05; done", env={"COLOUR": "green"})

    async def run() -> tuple[list[str], object]:
        async with bench(LocalSettings(theirs / "home", path_variable=os.defpath, python=PYTHON)) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
            script = (
                "id -u; hostname; echo $COLOUR; grep CapEff /proc/self/status; touch /usr/x 2>/dev/null; touch /tmp/go"
            )
            execution = await desk.engine.execute(gang.id, "worker", 0, ("bash", "-c", script), 20)
            pieces = [piece async for piece in execution.pieces()]
            await desk.exits(gang)
            return b"".join(getattr(piece, "data", b"") for piece in pieces).decode().split(), pieces[-1]

    words = [str(NOBODY), gang.replica_id(gang.replicas[0]), "green", "CapEff:", "0" * 16]
    assert as_nobody(run) == str((words, ExecEnded(0)))


def as_nobody(run: object) -> str:
    """What the coroutine function returns when an ordinary user runs it, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, str(asyncio.run(run())).encode())  # type: ignore[operator]
        except BaseException:  # noqa: BLE001  # whatever it was is told
            os.write(writing, traceback.format_exc()[-400:].encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told
