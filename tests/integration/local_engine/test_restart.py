"""Whatever is killed, and whenever: replicas go on, each runs at most once, and every end is told."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.ports.gangs import GangMount, GangStart
from shared.events import ReplicaExit
from tests.support.local_engine import appears, bench, gang_of, log_of, processes_of, replica_dir

ENGINE = "/services/scheduler/engines/local/"


async def test_a_new_engine_takes_up_what_runs(settings: LocalSettings, home: Path):
    gang = gang_of("echo begun; while test ! -e /tmp/go; do sleep 0.01; done; exit 7")
    async with bench(settings) as first:
        await first.engine.start(gang)
        await first.started(gang)
    async with bench(settings) as second:
        assert await second.until_caught_up() == {gang.id}
        assert second.starts(gang) == 1
        (replica_dir(home, gang) / "tmp/go").touch()

        assert (await second.exits(gang))[0].code == 7


async def test_exits_while_no_engine_was_there_are_told_each_time_until_forgotten(settings: LocalSettings, home: Path):
    gang = gang_of("exit 3", "sleep 0.1; kill -9 $$")
    async with bench(settings) as first:
        await first.engine.start(gang)
    await appears(replica_dir(home, gang, 1) / "exit.json", "wait_status")
    for _ in range(2):
        async with bench(settings) as later:
            ends = await later.exits(gang)
            assert [(end.code, end.signal) for end in ends] == [(3, None), (None, signal.SIGKILL)]
    async with bench(settings) as last:
        await last.engine.forget(gang.id)
    async with bench(settings) as after:
        assert await after.until_caught_up() == frozenset()
        assert after.ids() == set()


async def test_starting_twice_runs_everything_once(settings: LocalSettings, home: Path):
    gang = gang_of("echo ran", "echo ran; sleep 0.2")
    async with bench(settings) as desk:
        await asyncio.gather(*(desk.engine.start(gang) for _ in range(3)))
        await desk.exits(gang)
        await desk.engine.start(gang)
    async with bench(settings) as again:
        await again.run(gang)

    assert [log_of(home, gang, index) for index in (0, 1)] == ["ran\n", "ran\n"]


@pytest.mark.parametrize("sandboxed", [True, False], ids=["sandbox", "no sandbox"])
async def test_a_killed_runner_is_an_end(settings: LocalSettings, home: Path, sandboxed: bool):
    gang = gang_of("setsid sleep 1000 & echo ready; sleep 1000")
    async with bench(replace(settings, sandboxed=sandboxed)) as desk:
        await desk.engine.start(gang)
        await appears(replica_dir(home, gang) / "log", "ready")
        before = processes_of(gang)
        [runner] = [pid for pid in before if "runner" in command_of(pid) and "bwrap" not in command_of(pid)]
        os.kill(runner, signal.SIGKILL)
        [end] = await desk.exits(gang)

    assert (end.cause, end.message, end.succeeded) == ("lost", "its runner was killed", False)
    assert len(before) >= 3
    assert [command_of(pid) for pid in processes_of(gang)] == []


def test_the_engine_s_death_with_its_whole_session_does_not_reach_replicas(settings: LocalSettings, home: Path):
    gang = gang_of("echo begun; while test ! -e /tmp/go; do sleep 0.01; done; exit 4")
    child = start_in_child(settings, gang)
    asyncio.run(appears(replica_dir(home, gang) / "log", "begun"))
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (replica_dir(home, gang) / "tmp/go").touch()

    assert [end.code for end in run_again(settings, gang)] == [4]
    assert log_of(home, gang) == "begun\n"


@pytest.mark.parametrize("sandboxed", [True, False], ids=["sandbox", "no sandbox"])
def test_killed_at_any_call_of_a_start_the_gang_still_runs_once(
    settings: LocalSettings, tmp_path: Path, sandboxed: bool
):
    settings = replace(settings, sandboxed=sandboxed)
    mark = "echo $TM_INDEX >> $MARKS; exit $TM_INDEX"
    calls = count_calls(settings, gang_of("true", "true", "true"))
    for number in range(1, calls, calls // 12):
        marks = tmp_path / f"marks-{number}"
        gang = with_marks(gang_of(mark, mark, mark), marks, sandboxed=sandboxed)
        start_and_die(settings, gang, number)

        assert [end.code for end in run_again(settings, gang)] == [0, 1, 2], f"killed at call {number} of {calls}"
        assert sorted((marks / "ran").read_text().split()) == ["0", "1", "2"], f"killed at call {number} of {calls}"


def test_a_stop_reaches_a_gang_whose_start_was_cut_short(settings: LocalSettings):
    async def stop_and_start(gang: GangStart) -> set[str]:
        async with bench(settings) as desk:
            known = await desk.engine.stop(gang.id, 5)
            await desk.engine.start(gang)
            return {end.cause for end in await desk.exits(gang)} if known else {"unknown"}

    calls = count_calls(settings, gang_of("true", "true", "true"))
    causes = set()
    for number in range(1, calls, calls // 6):
        gang = gang_of("sleep 1000", "sleep 1000", "sleep 1000")
        start_and_die(settings, gang, number)
        causes |= asyncio.run(stop_and_start(gang))

    assert causes == {"stopped", "never-started", "unknown"}


async def test_a_gang_that_nobody_knows_cannot_be_stopped(settings: LocalSettings):
    async with bench(settings) as desk:
        assert not await desk.engine.stop(gang_of("true").id, 0)
        assert not await desk.engine.stop("../../etc", 0)  # type: ignore[arg-type]


async def test_a_machine_that_went_down_lost_its_replicas(settings: LocalSettings, home: Path):
    gang = gang_of("sleep 1000")
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
    for pid in processes_of(gang):
        os.kill(pid, signal.SIGKILL)
    record = home / "gangs" / gang.id / "gang.json"
    record.write_text(record.read_text().replace('"boot_id":"', '"boot_id":"another-'))

    async with bench(settings) as after:
        [end] = await after.exits(gang)

    assert (end.cause, end.message) == ("lost", "the machine was restarted")


async def test_a_forgotten_gang_goes_once_its_logs_are_shipped(settings: LocalSettings, home: Path):
    gang = gang_of("mkdir -p /tmp/a/b; chmod 0 /tmp/a", "exit 1")
    async with bench(settings) as desk:
        await desk.run(gang)
        await desk.engine.forget(gang.id)
        await desk.engine.forget(gang.id)
        assert log_of(home, gang) == ""
        assert not (replica_dir(home, gang) / "tmp").exists()
        for index in (0, 1):
            (replica_dir(home, gang, index) / "shipped.json").write_text('{"bytes": 0}')
        while (home / "gangs" / gang.id).exists():
            await asyncio.sleep(0.01)
        assert not await desk.engine.stop(gang.id, 0)


async def test_what_a_crash_left_half_made_is_cleared_away(settings: LocalSettings, home: Path):
    for name in (".new-tj-a-1", ".gone-tj-b-1", "tj-c-1"):
        (home / "gangs" / name).mkdir(parents=True)
    (home / "gangs/tj-c-1/gang.json").write_bytes(b"\0" * 200)

    async with bench(settings) as desk:
        assert await desk.until_caught_up() == frozenset()

    assert [path.name for path in (home / "gangs").iterdir()] == [".bell"]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def with_marks(gang: GangStart, marks: Path, *, sandboxed: bool) -> GangStart:
    """The gang, with a file to which each replica adds a line."""
    marks.mkdir()
    place = "/mnt/marks" if sandboxed else str(marks)
    replicas = tuple(replace(each, env={**each.env, "MARKS": f"{place}/ran"}) for each in gang.replicas)
    return replace(gang, replicas=replicas, mounts=(GangMount(marks, place),) if sandboxed else ())


def run_again(settings: LocalSettings, gang: GangStart) -> list[ReplicaExit]:
    """What a new engine makes of the gang."""

    async def run() -> list[ReplicaExit]:
        async with bench(settings) as desk:
            return await desk.run(gang)

    return asyncio.run(run())


def count_calls(settings: LocalSettings, gang: GangStart) -> int:
    """How many functions of the engine are called in the course of a start."""
    reading, writing = os.pipe()
    child = start_in_child(settings, gang, count_to=writing)
    os.close(writing)
    with os.fdopen(reading) as result:
        calls = int(result.readline())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return calls


def start_and_die(settings: LocalSettings, gang: GangStart, call: int) -> None:
    """Start the gang in a process that is killed at this call of a function of the engine."""
    child = start_in_child(settings, gang, die_at=call)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def start_in_child(settings: LocalSettings, gang: GangStart, *, die_at: int = -1, count_to: int = -1) -> int:
    """Start the gang in a process of its own, which stays until it is killed; it can count calls."""
    calls = itertools.count(1)
    counting = threading.Event()

    def count(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and counting.is_set() and ENGINE in frame.f_code.co_filename and next(calls) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def start() -> None:
        threading.setprofile(count)
        sys.setprofile(count)
        engine = await LocalEngine.open(settings)
        counting.set()
        await engine.start(gang)
        counting.clear()
        if count_to >= 0:
            os.write(count_to, f"{next(calls)}\n".encode())
        if die_at >= 0:  # the number of calls differs a little from time to time
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        asyncio.run(start())
    finally:
        os._exit(1)
