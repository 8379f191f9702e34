"""The controller's view of the engine: reports, calls in turn, calls that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.scheduler.control.gangs import RETRY_PAUSE_S, Gangs
from services.scheduler.control.troubles import Troubles
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.reports import (
    CaughtUp,
    Observation,
    ReplicaExited,
    ReplicaRef,
    ReplicaStarted,
    ReplicaWaiting,
)
from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.events import ReplicaExit
from tests.support.jobs import START

GANG = "tj-aaaaaaaaaaaa-1"
REPLICA = ReplicaRef("tj-aaaaaaaaaaaa", 1, "worker", 0, "n-1")


class FakeEngine:
    """Remembers calls; says what it is told to say."""

    def __init__(self):
        self.calls: list[str] = []
        self.reports: asyncio.Queue[Observation | Exception] = asyncio.Queue()
        self.knows = True
        self.failure: Exception | None = None

    async def observe(self) -> AsyncIterator[Observation]:
        while True:
            report = await self.reports.get()
            if isinstance(report, Exception):
                raise report
            yield report

    async def stop(self, gang_id: str, grace_s: float) -> bool:
        if self.failure:
            raise self.failure
        self.calls.append(f"stop {gang_id} {grace_s:g}")
        return self.knows

    async def forget(self, gang_id: str, keep_until: object = None) -> None:
        if self.failure:
            raise self.failure
        self.calls.append(f"forget {gang_id}")


class Scene:
    def __init__(self):
        self.engine = FakeEngine()
        self.clock = ManualClock()
        self.changed: list[str] = []
        self.troubles = Troubles()
        self.gangs = Gangs(self.engine, self.clock, self.changed.append, self.troubles)

    async def begin(self):
        self.engine.calls.append("start")

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def scene():
    made = Scene()
    observing = asyncio.create_task(made.gangs.observe())
    yield made
    observing.cancel()


async def test_reports_add_up_to_what_is_known_of_each_replica(scene):
    await scene.engine.reports.put(ReplicaStarted(REPLICA, START))
    await scene.engine.reports.put(ReplicaExited(REPLICA, START, ReplicaExit(code=3)))
    await scene.settle()
    replica = scene.gangs.view(GANG).replicas["worker-0"]
    assert (replica.started_at, replica.node, replica.exit.code) == (START, "n-1", 3)
    assert scene.changed == [GANG, GANG]


async def test_a_gang_without_reports_is_known_once_the_engine_has_caught_up(scene):
    assert scene.gangs.view(GANG).replicas is None
    await scene.engine.reports.put(CaughtUp(frozenset({GANG})))
    await scene.settle()
    assert scene.gangs.knows("main")
    assert scene.gangs.view(GANG).replicas == {}


async def test_a_stop_waits_for_the_start_that_is_under_way(scene):
    may_start = asyncio.Event()

    async def slow_start():
        await may_start.wait()
        scene.engine.calls.append("start")

    scene.gangs.start(GANG, slow_start)
    scene.gangs.stop(GANG, 5)
    await scene.settle()
    assert scene.engine.calls == []
    may_start.set()
    await scene.gangs.close()
    assert scene.engine.calls == ["start", f"stop {GANG} 5"]


async def test_a_refusal_is_kept_with_its_reason_and_time(scene):
    async def refused():
        raise StartRefusedError("no bubblewrap")

    scene.gangs.start(GANG, refused)
    await scene.gangs.close()
    view = scene.gangs.view(GANG)
    assert (view.refusal.message, view.refusal.at, view.start_called) == ("no bubblewrap", START, True)


async def test_a_gang_that_the_engine_disowns_counts_as_never_started(scene):
    scene.engine.knows = False
    scene.gangs.start(GANG, scene.begin)
    scene.gangs.stop(GANG, 5)
    await scene.gangs.close()
    view = scene.gangs.view(GANG)
    assert (view.replicas, view.start_called, view.stop_called) == (None, False, True)


async def test_a_call_that_failed_may_be_made_again_after_a_pause(scene):
    scene.engine.failure = OSError("disk full")
    scene.gangs.stop(GANG, 5)
    await scene.settle()
    assert scene.gangs.view(GANG).stop_called
    await scene.clock.advance(RETRY_PAUSE_S)
    await scene.settle()
    assert not scene.gangs.view(GANG).stop_called
    assert scene.changed == [GANG]


async def test_why_a_call_fails_is_told_until_one_succeeds(scene):
    scene.engine.failure = OSError(28, "No space left on device", "/home/of/the/platform")
    scene.gangs.stop(GANG, 5)
    await scene.settle()
    told = scene.troubles.told(GANG)
    assert "(No space left on device)" in told
    assert "/home" not in told
    await scene.clock.advance(RETRY_PAUSE_S)
    scene.engine.failure = None
    scene.gangs.stop(GANG, 5)
    await scene.gangs.close()
    assert scene.troubles.told(GANG) == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [(UnavailableError("NATS is away"), "(NATS is away)"), (KeyError("x"), "(an unexpected error, which")],
)
def test_troubles_are_told_in_words_that_a_user_may_read(error, words):
    troubles = Troubles()
    troubles.note(GANG, error)
    assert words in troubles.told(GANG)


async def test_a_forgotten_gang_is_gone_from_view(scene):
    scene.gangs.start(GANG, scene.begin)
    scene.gangs.forget(GANG)
    await scene.gangs.close()
    assert scene.engine.calls == ["start", f"forget {GANG}"]
    assert GANG not in scene.gangs.known()


async def test_a_gang_that_could_not_be_forgotten_is_looked_at_again(scene):
    scene.gangs.start(GANG, scene.begin)
    scene.engine.failure = OSError("disk full")
    scene.gangs.forget(GANG)
    await scene.settle()
    await scene.clock.advance(RETRY_PAUSE_S)
    await scene.settle()
    assert scene.changed == [GANG, GANG]
    assert GANG in scene.gangs.known()
    scene.engine.failure = None
    scene.gangs.forget(GANG)
    await scene.gangs.close()
    assert scene.engine.calls == ["start", f"forget {GANG}"]
    assert GANG not in scene.gangs.known()


async def test_reports_that_break_off_are_taken_up_again(scene):
    await scene.engine.reports.put(OSError("lost"))
    await scene.settle()
    await scene.clock.advance(RETRY_PAUSE_S)
    await scene.engine.reports.put(ReplicaStarted(REPLICA, START))
    await scene.settle()
    assert scene.gangs.view(GANG).replicas["worker-0"].started_at == START


async def test_what_keeps_a_replica_from_running_is_told_until_it_runs(scene):
    await scene.engine.reports.put(ReplicaWaiting(REPLICA, START, "its image cannot be pulled"))
    await scene.settle()
    assert scene.gangs.view(GANG).waiting == {"worker-0": "its image cannot be pulled"}
    assert "worker-0: its image cannot be pulled" in scene.troubles.told(GANG)
    await scene.engine.reports.put(ReplicaStarted(REPLICA, START))
    await scene.settle()
    assert not scene.gangs.view(GANG).waiting
    assert not scene.troubles.told(GANG)


async def test_what_kept_a_replica_from_running_explains_its_end_and_is_no_trouble_any_more(scene):
    await scene.engine.reports.put(ReplicaWaiting(REPLICA, START, "its image cannot be pulled"))
    await scene.engine.reports.put(ReplicaExited(REPLICA, START, ReplicaExit(cause="never-started")))
    await scene.settle()
    assert scene.gangs.view(GANG).waiting == {"worker-0": "its image cannot be pulled"}
    assert not scene.troubles.told(GANG)
