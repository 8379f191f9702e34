"""How replicas end, and that the engine tells it as it was; the same with and without a sandbox."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.agent.phases import declared_in
from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.engines.local.memory_groups import find_memory_groups
from shared.events import OutOfMemory
from shared.replica import python_files
from tests.support.local_engine import PYTHON, Bench, appears, bench, gang_of, identity, log_of, replica_dir


@pytest.fixture(params=[True, False], ids=["sandbox", "no sandbox"])
async def desk(settings: LocalSettings, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with bench(replace(settings, sandboxed=request.param)) as made:
        assert bool(made.engine.no_sandbox_because) != request.param
        yield made


async def test_exit_codes_and_signals_are_told_apart(desk: Bench):
    ends = await desk.run(
        gang_of("true", "exit 137", "kill -9 $$", "kill -SEGV $$", "no-such-program", "kill -TERM $$")
    )

    assert [end.code for end in ends] == [0, 137, None, None, 127, None]
    assert [end.signal for end in ends] == [None, None, signal.SIGKILL, signal.SIGSEGV, None, signal.SIGTERM]
    assert {end.cause for end in ends} == {"exited"}
    assert {end.out_of_memory for end in ends} == {OutOfMemory.NONE}
    assert [end.succeeded for end in ends] == [True] + [False] * 5


@pytest.mark.skipif(find_memory_groups() is None, reason="no memory groups can be made here")
async def test_more_than_its_memory_ends_a_replica_for_certain_and_no_other(desk: Bench):
    hungry = f"{PYTHON} -c 'bytearray(64 << 20)'"
    gang = gang_of(f"exec {hungry}", f"{hungry}; exit 3")
    small, shell_survives = (replace(start, memory_bytes=32 << 20) for start in gang.replicas)
    roomy = replace(shell_survives, index=2, env=identity(gang.job, 2), memory_bytes=256 << 20, command="true")

    ends = await desk.run(replace(gang, replicas=(small, shell_survives, roomy)))

    assert [(end.code, end.signal) for end in ends] == [(None, signal.SIGKILL), (3, None), (0, None)]
    assert [end.out_of_memory for end in ends] == [OutOfMemory.CERTAIN, OutOfMemory.CERTAIN, OutOfMemory.NONE]
    groups = find_memory_groups()
    assert groups is not None
    await desk.engine.forget(gang.id)
    assert [groups.find(gang.replica_id(start)) for start in gang.replicas] == [None, None]


async def test_output_of_both_streams_is_in_the_log_in_order(desk: Bench, home: Path):
    gang = gang_of("printf one; printf two >&2; printf three")

    await desk.run(gang)

    assert log_of(home, gang) == "onetwothree"


async def test_descendants_in_sessions_of_their_own_end_with_the_command(desk: Bench, home: Path):
    daemon = "setsid sh -c 'trap \"\" TERM HUP; while :; do echo tick; sleep 0.01; done' &"
    gang = gang_of(f"{daemon} (setsid sleep 1000 &) ; sleep 0.1; exit 5")

    [end] = await desk.run(gang)
    size = (replica_dir(home, gang) / "log").stat().st_size

    assert end.code == 5
    assert size > 0
    assert not processes_with(gang.job), "a descendant is left"
    assert (replica_dir(home, gang) / "log").stat().st_size == size


async def test_a_command_that_cannot_be_run_says_why_in_the_log(desk: Bench, home: Path):
    gang = gang_of("x" * 200_000)

    [end] = await desk.run(gang)

    assert end.code == 126
    assert "Argument list too long" in log_of(home, gang)


async def test_signals_limits_and_input_are_as_a_fresh_program_expects(desk: Bench, home: Path):
    gang = gang_of("grep -E 'Sig(Ign|Blk)' /proc/self/status; readlink /proc/self/fd/0; umask; ulimit -c; ulimit -n")

    await desk.run(gang)

    *signals, stdin, umask, core, open_files = log_of(home, gang).split("\n")[:-1]
    left_alone = 0b11 << 31  # 32 and 33 belong to the C library: `make` has them ignored, and nobody can change that
    assert [int(line.split()[1], 16) & ~left_alone for line in signals] == [0, 0]
    assert (stdin, umask, core) == ("/dev/null", "0022", "0")
    assert int(open_files) > 1024


async def test_no_descriptor_of_the_platform_reaches_the_command(desk: Bench, home: Path):
    gang = gang_of("exec ls /proc/self/fd")

    await desk.run(gang)

    assert log_of(home, gang).split() == ["0", "1", "2", "3"]  # the last is that of the listing


@pytest.mark.parametrize("own", [{}, {"PYTHONPATH": "/tmp/own"}], ids=["none", "one"])
async def test_training_code_imports_the_hook_behind_what_the_job_has_for_itself(
    desk: Bench, home: Path, own: dict[str, str]
):
    look = f"{PYTHON} -c 'import sys, trainmaster_hook as hook; print(sys.path[1], hook.watch_steps(0, [1]))'"
    gang = gang_of(f"mkdir -p /tmp/own; {look}", env=own, files=python_files())
    await desk.run(gang)
    first, batches = log_of(home, gang).splitlines()[-1].split(maxsplit=1)
    assert first == own.get("PYTHONPATH", first)
    assert "_Batches" in batches


async def test_the_environment_is_made_from_scratch(desk: Bench, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLATFORM_SECRET", "x")
    gang = gang_of("env", env={"LD_LIBRARY_PATH": "/nowhere", "MASTER_ADDR": "a-host", "LANG": "de_DE.UTF-8"})

    await desk.run(gang)

    env = dict(line.split("=", 1) for line in log_of(home, gang).splitlines())
    own = {
        "PATH",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PET_MASTER_PORT",
        "PET_MASTER_ADDR",
        "TM_PHASE_FILE",
        "PYTHONPATH",
    }
    assert set(env) - own - {"PWD", "SHLVL", "_", "TMPDIR"} == {"TM_JOB_ID", "TM_ATTEMPT", "TM_ROLE", "TM_INDEX"}
    assert env["LANG"] == "de_DE.UTF-8"
    assert env["MASTER_PORT"] == env["PET_MASTER_PORT"]


async def test_a_phase_that_a_replica_declares_in_its_file_is_where_the_agent_looks(desk: Bench, home: Path):
    gang = gang_of('echo checkpoint > "$TM_PHASE_FILE"')

    await desk.run(gang)

    assert declared_in(replica_dir(home, gang)) == "checkpoint"


async def test_stop_gives_the_whole_tree_its_grace(desk: Bench, home: Path):
    saves = "trap 'sleep 0.1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    gang = gang_of(f'setsid sh -c "{saves}" & exec sleep 1000')
    await desk.engine.start(gang)
    await appears(replica_dir(home, gang) / "log", "ready")

    assert await desk.engine.stop(gang.id, 10)
    [end] = await desk.exits(gang)

    assert (end.cause, end.signal) == ("stopped", signal.SIGTERM)
    assert log_of(home, gang).endswith("saved\n")


async def test_what_does_not_listen_is_killed_after_the_grace(desk: Bench, home: Path):
    gang = gang_of("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await desk.engine.start(gang)
    await appears(replica_dir(home, gang) / "log", "ready")

    await desk.engine.stop(gang.id, 3600)
    await desk.engine.stop(gang.id, 0.05)
    [end] = await desk.exits(gang)

    assert (end.cause, end.signal) == ("stopped", signal.SIGKILL)
    assert not processes_with(gang.job)


async def test_a_stopped_process_is_woken_to_hear_of_the_stop(desk: Bench, home: Path):
    gang = gang_of("echo ready; kill -STOP $$; sleep 1000")
    await desk.engine.start(gang)
    await appears(replica_dir(home, gang) / "log", "ready")

    await desk.engine.stop(gang.id, 10)

    assert (await desk.exits(gang))[0].signal == signal.SIGTERM


def test_a_command_can_be_tried_by_hand():
    module = [sys.executable, "-m", "services.scheduler.engines.local", "--"]

    done = subprocess.run([*module, "hostname; exit 3"], capture_output=True, text=True, check=False)

    assert done.returncode == 3, done.stderr
    assert re.fullmatch(r"tj-\w{12}-1-worker-0\n", done.stdout)
    assert "started after" in done.stderr


def processes_with(job: str) -> list[str]:
    """Commands of all processes that have the job's id in their environment."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if f"TM_JOB_ID={job}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found
