"""Commands run beside a replica's own, in its sandbox and with its rights."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.gangs import CodeInline, GangStart
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, ExecRefusedError
from tests.support.local_engine import ROLE, Bench, bench, gang_of

WAITS = "echo mine > /tmp/mine; while test ! -e /tmp/go; do sleep 0.05; done"


async def ran(desk: Bench, gang: GangStart, *command: str, limit_s: float = 20) -> tuple[int, str, str]:
    execution = await desk.engine.execute(gang.id, ROLE, 0, command, limit_s)
    written = {"stdout": b"", "stderr": b""}
    async for piece in execution.pieces():
        if isinstance(piece, ExecOutput):
            written[piece.stream] += piece.data
    assert isinstance(piece, ExecEnded)
    return piece.code, written["stdout"].decode(), written["stderr"].decode()


async def test_a_command_sees_what_the_replica_sees(settings: LocalSettings, home: Path):
    gang = gang_of(WAITS, env={"COLOUR": "green"}, code=CodeInline({"a.py": "x"}))
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        written = "until [ -s /tmp/mine ]; do sleep 0.01; done"
        script = (
            f"{written}; cat /tmp/mine; pwd; ls; hostname; echo $COLOUR; tr '\\\\0' ' ' < /proc/1/cmdline; ls -A {home}"
        )
        code, out, err = await ran(desk, gang, "bash", "-c", script)
        assert (code, err) == (0, "")
        *lines, runner = out.splitlines()
        assert lines == ["mine", "/code", "a.py", gang.replica_id(gang.replicas[0]), "green"]
        assert "runner" in runner
        assert await ran(desk, gang, "touch", "/tmp/go") == (0, "", "")
        assert [end.code for end in await desk.exits(gang)] == [0]


async def test_it_has_no_more_rights_than_the_replica(settings: LocalSettings):
    rights = (
        "grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Groups' /proc/self/status; ls -l /proc/self/fd | wc -l; ulimit -c"
    )
    tries = (
        *("mount -t tmpfs x /mnt", "umount /etc/hosts", "touch /usr/x"),
        *("cat /proc/1/environ", "head -c 1 /proc/1/fd/0"),
    )
    gang = gang_of(f"({rights}) > /tmp/own; {WAITS}")
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        while (await ran(desk, gang, "test", "-e", "/tmp/mine"))[0]:
            await asyncio.sleep(0.02)
        code, out, _ = await ran(desk, gang, "bash", "-c", f"({rights}) > /tmp/other; diff /tmp/own /tmp/other")
        assert (code, out) == (0, "")
        for attempt in tries:
            code, out, _ = await ran(desk, gang, "bash", "-c", attempt)
            assert code != 0, attempt
            assert out == "", attempt
        await ran(desk, gang, "touch", "/tmp/go")


async def test_exit_codes_are_those_of_a_shell(settings: LocalSettings):
    gang = gang_of(WAITS)
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        assert (await ran(desk, gang, "bash", "-c", "echo out; echo err >&2; exit 9")) == (9, "out\n", "err\n")
        assert (await ran(desk, gang, "bash", "-c", "kill -9 $$"))[0] == 137
        assert (await ran(desk, gang, "no-such-command"))[0] == 127
        assert (await ran(desk, gang, "/etc"))[0] == 126
        assert len((await ran(desk, gang, "head", "-c", "3000000", "/dev/zero"))[1]) == 3_000_000
        await ran(desk, gang, "touch", "/tmp/go")


async def test_a_command_ends_with_its_time_and_with_whoever_listens(settings: LocalSettings):
    gang = gang_of(WAITS)
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        assert (await ran(desk, gang, "sleep", "1000", limit_s=0.3))[0] == 124
        execution = await desk.engine.execute(gang.id, ROLE, 0, ("bash", "-c", "echo x; tail -f /dev/null"), 60)
        pieces = execution.pieces()
        assert await anext(pieces) == ExecOutput("stdout", b"x\n")
        await pieces.aclose()
        assert (await ran(desk, gang, "bash", "-c", "cat /proc/[0-9]*/comm | grep -c tail"))[1] == "0\n"
        await ran(desk, gang, "touch", "/tmp/go")


async def test_a_replica_that_does_not_run_is_refused(settings: LocalSettings):
    gang = gang_of("exit 3")
    async with bench(settings) as desk:
        await desk.run(gang)
        for index in (0, 7):
            with pytest.raises(ExecRefusedError):
                await desk.engine.execute(gang.id, ROLE, index, ("true",), 5)


async def test_without_a_sandbox_it_is_refused_with_the_reason(settings: LocalSettings):
    gang = gang_of("sleep 0.5")
    async with bench(replace(settings, sandboxed=False)) as desk:
        await desk.engine.start(gang)
        with pytest.raises(ExecRefusedError, match="switched off"):
            await desk.engine.execute(gang.id, ROLE, 0, ("true",), 5)
        await desk.exits(gang)
