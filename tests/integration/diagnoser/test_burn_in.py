"""First steps of a job, judged by a running diagnoser against a real JetStream."""

from __future__ import annotations

from services.diagnoser.bootstrap import bootstrap
from shared import events as ev
from shared.bus import Bus
from shared.bus.history import recorded_of
from shared.bus.streams import NODES
from shared.ids import new_job_id
from tests.support import jobs
from tests.support.diagnosers import settings
from tests.support.nats import NatsServer
from tests.support.services import eventually, running

NODES_OF_IT = ("n-1", "n-2", "n-3", "n-4")


async def started(bus: Bus) -> str:
    """A running job with a replica on each of four nodes."""
    job = new_job_id()
    role = ev.RolePlacement(role="worker", pool="p-public", nodes=NODES_OF_IT, node_of=(0, 1, 2, 3))
    at = await bus.append(jobs.event(jobs.submitted(replicas=4), job), expected=0)
    at = await bus.append(jobs.event(ev.Placed(cluster="main", roles=(role,)), job), expected=at)
    await bus.append(jobs.event(ev.Started(), job), expected=at)
    return job


def steps(slow: int | None) -> ev.StepsMeasured:
    """Steps of four ranks, of which one may need twice as long."""
    windows = range(20, 70, 10)
    return ev.StepsMeasured(
        source="hook",
        ranks=tuple(
            ev.RankSteps(
                role="worker",
                index=number,
                rank=number,
                last_steps=tuple(windows),
                compute_ms=(40.0 if number == slow else 20.0,) * len(windows),
                wait_ms=(1.0 if number == slow else 21.0,) * len(windows),
            )
            for number in range(4)
        ),
    )


async def verdict(bus: Bus, job: str) -> ev.BurnInJudged:
    async def look() -> ev.BurnInJudged | None:
        found = await bus.load_job(job)
        return found.attempt.burn_in if found else None

    return await eventually(look)


async def lagged(bus: Bus) -> list[ev.NodeLagged]:
    found = [recorded_of(each).event.data for each in await bus.history.messages(NODES, "tm.node.*.*.lagged")]
    return [each for each in found if isinstance(each, ev.NodeLagged)]


async def test_the_slow_rank_is_told_to_the_job_and_its_node_to_the_ledger_once(
    bus: Bus, nats_server: NatsServer
) -> None:
    job = await started(bus)
    async with running(await bootstrap(settings(nats_server))):
        await bus.observe(jobs.event(steps(slow=2), job))
        found = await verdict(bus, job)
        await bus.observe(jobs.event(steps(slow=1), job, part="again"))
        sound = await started(bus)
        await bus.observe(jobs.event(steps(slow=None), sound))
        assert (await verdict(bus, sound)).suspects == ()
    assert [(each.rank, each.node) for each in found.suspects] == [(2, "n-3")]
    (told,) = await lagged(bus)
    assert (told.node, told.job, told.rank) == ("n-3", job, 2)
    assert told.reason == f"demo: {found.suspects[0].why}"
