"""Commands in pods, over the channel protocol, with a server that really runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes import execution
from services.scheduler.engines.kubernetes.execution import EXIT_NOT_STARTED, EXIT_TIMED_OUT, KubernetesExecution
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput
from shared.kubernetes.access import KubernetesApi
from tests.support.kubernetes.exec_server import ExecServer, serving
from tests.support.services import eventually


@pytest.fixture
def server() -> ExecServer:
    return ExecServer()


@pytest.fixture
async def api(server: ExecServer) -> AsyncIterator[KubernetesApi]:
    async with serving(server) as found:
        yield found


def bash(api: KubernetesApi, script: str, limit_s: float = 30) -> KubernetesExecution:
    return KubernetesExecution(api, "jobs", "tj-a-1-worker-0", ("bash", "-c", script), limit_s)


async def run(api: KubernetesApi, script: str, limit_s: float = 30) -> tuple[bytes, bytes, ExecEnded]:
    told: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    async for piece in bash(api, script, limit_s).pieces():
        if isinstance(piece, ExecEnded):
            return told["stdout"], told["stderr"], piece
        told[piece.stream] += piece.data
    raise AssertionError("the end was not told")


async def gone(pid: int) -> bool | None:
    status = Path(f"/proc/{pid}/status")
    return None if status.exists() and "\nState:\tZ" not in status.read_text() else True


@pytest.mark.parametrize("protocols", [("v5.channel.k8s.io",), ("v4.channel.k8s.io",)])
async def test_output_and_exit_code_come_over_either_protocol(server: ExecServer, api: KubernetesApi, protocols):
    server.protocols = protocols
    out, err, end = await run(api, "echo out; echo err >&2; exit 5")
    assert (out, err, end) == (b"out\n", b"err\n", ExecEnded(5))
    assert server.agreed == list(protocols)


async def test_the_command_is_for_the_replicas_own_container(server: ExecServer, api: KubernetesApi):
    assert (await run(api, "true"))[2] == ExecEnded(0)
    assert server.queries[0]["container"] == ["replica"]
    assert server.queries[0]["stdin"] == ["true"]
    assert "tty" not in server.queries[0]


async def test_arguments_arrive_as_they_were_given(api: KubernetesApi):
    out, _, _ = await run(api, "printf '%s|' 'a b' '&x=1' $'ü\\n' '$HOME'")
    assert out.decode() == "a b|&x=1|ü\n|$HOME|"


async def test_much_output_comes_whole_and_in_order(api: KubernetesApi):
    out, _, _ = await run(api, "seq 1 200000")
    assert out == b"".join(b"%d\n" % number for number in range(1, 200_001))


async def test_a_command_has_no_input(api: KubernetesApi):
    assert (await run(api, "cat; echo done"))[0] == b"done\n"


@pytest.mark.parametrize(("script", "code"), [("kill -9 $$", 137), ("exec no-such-program", 127)])
async def test_signals_and_missing_commands_end_as_in_a_shell(api: KubernetesApi, script: str, code: int):
    assert (await run(api, script))[2] == ExecEnded(code)


async def started(api: KubernetesApi, script: str, limit_s: float = 30):
    """The pieces of a command that has said its process ids, and these."""
    pieces = bash(api, script, limit_s).pieces()
    first = await anext(pieces)
    assert isinstance(first, ExecOutput)
    return pieces, [int(pid) for pid in first.data.split()]


ENDLESS = "setsid sleep 1000 & echo $$ $!; sleep 1000"


async def test_leaving_early_kills_the_command_and_what_it_has_started(api: KubernetesApi):
    pieces, pids = await started(api, ENDLESS)
    await pieces.aclose()
    for pid in pids:
        assert await eventually(lambda pid=pid: gone(pid))


async def test_a_cancelled_reader_kills_it_too(api: KubernetesApi):
    pieces, pids = await started(api, ENDLESS)
    reading = asyncio.create_task(anext(pieces))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    for pid in pids:
        assert await eventually(lambda pid=pid: gone(pid))


async def test_a_connection_that_breaks_kills_it_too(server: ExecServer, api: KubernetesApi):
    server.break_after_start = True
    assert (await run(api, "sleep 1000"))[2].code == EXIT_NOT_STARTED
    (process,) = server.processes
    assert await eventually(lambda: gone(process.pid))


async def test_a_command_is_ended_at_its_limit(api: KubernetesApi):
    pieces, pids = await started(api, ENDLESS, limit_s=1.0)
    assert [piece async for piece in pieces] == [ExecEnded(EXIT_TIMED_OUT, "the command was ended after 1 s")]
    for pid in pids:
        assert await eventually(lambda pid=pid: gone(pid))


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_refusal_is_an_end_that_says_so(server: ExecServer, api: KubernetesApi, status: int):
    server.refuse_with = status
    _, _, end = await run(api, "true")
    assert end.code == EXIT_NOT_STARTED
    assert str(status) in end.message


async def test_an_image_without_a_shell_is_told(api: KubernetesApi, monkeypatch):
    made = bash(api, "true")
    monkeypatch.setattr(made, "_command", ("/no/such/shell",))
    (end,) = [piece async for piece in made.pieces()]
    assert (end.code, "no such file" in end.message) == (EXIT_NOT_STARTED, True)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"status": "Failure", "details": {"causes": [{}]}}'])
def test_an_end_that_is_told_in_an_unknown_way_is_no_success(data: bytes):
    assert execution._ended(data).code == EXIT_NOT_STARTED


async def test_a_server_that_is_away_is_told():
    async with serving(ExecServer()) as api:
        pass
    _, _, end = await run(api, "true")
    assert end.code == EXIT_NOT_STARTED
