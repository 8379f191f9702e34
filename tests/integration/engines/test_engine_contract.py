"""What every engine keeps to, whatever it runs replicas with: the promises of the `Engine` port.

What a death in the middle of a call leaves is looked at where each engine can be made to die at any point of it:
`local_engine/test_restart.py`, `kubernetes/test_gang_faults.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import ReplicaExited, ReplicaStarted
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, ExecRefusedError
from shared.clock import SystemClock
from shared.tasks import end
from tests.support.kubernetes.clusters import a_cluster, kinds_of_clusters
from tests.support.kubernetes.engines import engine_on, gang_on, kubelets
from tests.support.kubernetes.exec_server import ExecServer
from tests.support.kubernetes.scripts import PodScript
from tests.support.local_engine import Bench, bench, gang_of, kill_runners, remove_memory_groups

LONG = "exec sleep 1000"
OTHER_GRACE_S = 5


@dataclass(frozen=True)
class Kind:
    """One engine: how it is opened, again and again over the same state, and gangs for it."""

    open: Callable[[], AbstractAsyncContextManager[Bench]]
    gang: Callable[..., GangStart]
    lays_data: bool
    runs_commands: bool = True
    """Not where nodes are simulated and the API server is a real one."""


@asynccontextmanager
async def local(_: Path) -> AsyncIterator[Kind]:
    home = Path(tempfile.mkdtemp(prefix=".tm-test-", dir=Path.home()))
    try:
        yield Kind(lambda: bench(LocalSettings(home, sweep_s=0.1)), gang_of, lays_data=True)
    finally:
        kill_runners(home)
        remove_memory_groups(home)
        shutil.rmtree(home, ignore_errors=True)


def kubernetes(kind: str) -> Callable[[Path], AbstractAsyncContextManager[Kind]]:
    @asynccontextmanager
    async def opened(directory: Path) -> AsyncIterator[Kind]:
        async with a_cluster(kind, directory) as cluster, kubelets(cluster, "a", "b", script=played):

            def gang(*commands: str, **parts) -> GangStart:
                return gang_on(cluster, "a", "b", replicas=len(commands), command=commands, **parts)

            if cluster.server is not None:
                cluster.server.commands = ExecServer().handle
            runs_commands = cluster.server is not None
            yield Kind(lambda: engine_on(cluster), gang, lays_data=False, runs_commands=runs_commands)

    return opened


def played(pod: dict) -> PodScript:
    """What the command would do, were it run."""
    command = pod["spec"]["containers"][0]["command"][-1]
    if command.startswith("exit "):
        return PodScript(run_s=0, exit_code=int(command.removeprefix("exit ")))
    return PodScript(stop_exit_code=143)


ENGINES = {"local": local} | {f"kubernetes, {kind}": kubernetes(kind) for kind in kinds_of_clusters()}


@pytest.fixture(params=list(ENGINES))
async def kind(request, tmp_path: Path) -> AsyncIterator[Kind]:
    async with ENGINES[request.param](tmp_path) as made:
        yield made


async def test_nodes_have_ids_names_and_capacity_that_stay(kind: Kind):
    async with kind.open() as desk:
        first = await desk.engine.inventory()
    async with kind.open() as desk:
        again = await desk.engine.inventory()
    assert first.nodes
    assert [(node.id, node.name) for node in first.nodes] == [(node.id, node.name) for node in again.nodes]
    assert all(node.cpu_m > 0 and node.memory_bytes > 0 for node in first.nodes)


async def test_an_engine_without_gangs_has_caught_up_at_once(kind: Kind):
    async with kind.open() as desk:
        assert await desk.until_caught_up() == frozenset()


async def test_starts_and_exit_codes_are_told_for_every_replica(kind: Kind):
    gang = kind.gang("exit 0", "exit 3")
    async with kind.open() as desk:
        ends = await desk.run(gang)
    assert [(end.code, end.cause, end.succeeded) for end in ends] == [(0, "exited", True), (3, "exited", False)]
    assert desk.starts(gang) == 2


async def test_a_start_that_is_repeated_runs_nothing_twice(kind: Kind):
    gang = kind.gang(LONG, "exit 4")
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
        await desk.engine.start(gang)
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        assert [end.code for end in await desk.exits(gang)][1] == 4
        assert desk.starts(gang) == 2


async def test_a_new_engine_adopts_what_runs_and_tells_it_again(kind: Kind):
    gang = kind.gang(LONG, "exit 7")
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        before = [each for each in desk.seen if isinstance(each, ReplicaStarted)]
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
    async with kind.open() as desk:
        assert gang.id in await desk.until_caught_up()
        caught_up = desk.ids()
        again = [each for each in desk.seen if isinstance(each, ReplicaStarted)]
        assert {(each.id, each.at) for each in again} == {(each.id, each.at) for each in before}
        assert f"{gang.replica_id(gang.replicas[1])}/exited" in caught_up
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        first, second = await desk.exits(gang)
        assert (first.cause, second.code) == ("stopped", 7)


async def test_a_stop_ends_every_replica_and_is_told_as_one(kind: Kind):
    gang = kind.gang(LONG, LONG)
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        assert await desk.engine.stop(gang.id, OTHER_GRACE_S)
        assert await desk.engine.stop(gang.id, OTHER_GRACE_S)
        assert {end.cause for end in await desk.exits(gang)} == {"stopped"}


async def test_a_gang_that_was_stopped_is_not_started_any_more(kind: Kind):
    gang = kind.gang(LONG, LONG)
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        ends = await desk.exits(gang)
        await desk.engine.start(gang)
        assert await desk.exits(gang) == ends
        assert desk.starts(gang) == 2


async def test_a_gang_that_nobody_knows_is_not_stopped_and_forgotten_in_peace(kind: Kind):
    gang = kind.gang(LONG)
    async with kind.open() as desk:
        assert not await desk.engine.stop(gang.id, OTHER_GRACE_S)
        await desk.engine.forget(gang.id)


async def test_a_forgotten_gang_is_reported_no_more(kind: Kind):
    gang = kind.gang("exit 0")
    async with kind.open() as desk:
        await desk.run(gang)
        await desk.engine.forget(gang.id)
        await desk.engine.forget(gang.id)
    async with kind.open() as desk:
        assert gang.id not in await desk.until_caught_up()
        assert not desk.ids()


async def test_what_a_gang_left_is_held_until_its_time(kind: Kind):
    gang = kind.gang("exit 1")
    until = SystemClock().now().replace(microsecond=0) + timedelta(hours=1)
    async with kind.open() as desk:
        await desk.run(gang)
        await desk.engine.forget(gang.id, until)
        (held,) = desk.engine.kept(gang.job)
        assert (held.attempt, held.until) == (1, until)
        assert not desk.engine.kept("tj-another")


async def test_data_is_laid_on_this_machine_or_told_by_its_address(kind: Kind):
    async with kind.open() as desk:
        assert desk.engine.lays_data is kind.lays_data


async def test_a_second_observer_is_told_the_same_with_the_same_ids(kind: Kind):
    gang = kind.gang(LONG, "exit 6")
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        await desk.until(f"{gang.replica_id(gang.replicas[1])}/exited")
        again = Bench(desk.engine)
        watching = asyncio.create_task(again.watch())
        await again.until_caught_up()
        lasting = (ReplicaStarted, ReplicaExited)
        told, before = [{each for each in one.seen if isinstance(each, lasting)} for one in (again, desk)]
        assert told == before
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        assert await again.exits(gang) == await desk.exits(gang)
        await end(watching)


async def test_nothing_holds_up_replicas_that_run_or_have_ended_or_that_nobody_knows(kind: Kind):
    gang = kind.gang(LONG, "exit 0")
    async with kind.open() as desk:
        assert not desk.engine.holdups(gang.id)
        await desk.engine.start(gang)
        await desk.started(gang)
        assert not desk.engine.holdups(gang.id)
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        await desk.exits(gang)
        assert not desk.engine.holdups(gang.id)


async def test_what_is_held_of_a_gang_is_known_to_the_next_engine_and_no_later_call_shortens_it(kind: Kind):
    gang = kind.gang("exit 1")
    until = SystemClock().now().replace(microsecond=0) + timedelta(hours=1)
    async with kind.open() as desk:
        await desk.run(gang)
        await desk.engine.forget(gang.id, until)
        await desk.engine.forget(gang.id)
    async with kind.open() as desk:
        await desk.until_caught_up()
        assert [held.until for held in desk.engine.kept(gang.job)] == [until]


async def test_a_command_runs_beside_a_replica_and_not_after_it_has_ended(kind: Kind):
    if not kind.runs_commands:
        pytest.skip("nodes that run no pods run no commands in them")
    gang = kind.gang(LONG)
    async with kind.open() as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        execution = await desk.engine.execute(gang.id, "worker", 0, ("bash", "-c", "echo here; exit 3"), 20.0)
        assert [piece async for piece in execution.pieces()] == [ExecOutput("stdout", b"here\n"), ExecEnded(3)]
        await desk.engine.stop(gang.id, OTHER_GRACE_S)
        await desk.exits(gang)
        with pytest.raises(ExecRefusedError):
            await desk.engine.execute(gang.id, "worker", 0, ("true",), 1.0)


async def test_no_command_is_run_for_a_replica_that_there_is_not(kind: Kind):
    async with kind.open() as desk:
        await desk.until_caught_up()
        with pytest.raises(ExecRefusedError):
            await desk.engine.execute(kind.gang(LONG).id, "worker", 0, ("true",), 1.0)
