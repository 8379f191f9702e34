"""From the picture to reports: each fact once, and ends that nothing else remembers are noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from services.scheduler.engines.kubernetes.nodes import Amounts, NodeSeen
from services.scheduler.engines.kubernetes.observing import Observer
from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.engines.kubernetes.pods import Ended
from services.scheduler.ports.reports import CaughtUp, Observation
from shared.clock import ManualClock
from shared.events import ReplicaExit
from shared.kubernetes.names import node_id
from shared.kubernetes.watch import Changed, Gone, Listed
from tests.support.jobs import START
from tests.unit.services.scheduler.engines.kubernetes.test_verdicts import KEY, POD, REF, RELEASED, RUNNING

ENDED = replace(RUNNING, ended=Ended(START, ReplicaExit(code=3)))


class Scene:
    def __init__(self, *gangs) -> None:
        self.clock = ManualClock(START)
        self.picture = Picture(self.clock, lost_after_s=300)
        self.noted: list = []
        self.picture.take_nodes(Listed((NodeSeen("node-a", Amounts(1, 1, 0)),)))
        self.picture.take_gangs(Listed(gangs))
        self.picture.take_pods(Listed(()))
        observer = Observer(self.picture, "main", self.clock, lambda gang, key, end: self.noted.append((key, end)))
        self.reports: AsyncIterator[Observation] = observer.reports()

    async def next(self) -> Observation:
        async with asyncio.timeout(45):
            return await anext(self.reports)

    async def nothing(self) -> bool:
        """Whether nothing is told though the observer has looked."""
        waiting = asyncio.create_task(anext(self.reports))
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return not done


async def test_what_is_known_comes_first_and_then_that_this_was_all():
    scene = Scene(RELEASED)
    scene.picture.take_pods(Changed(RUNNING))
    assert (await scene.next()).id == f"{REF.id}/started"
    assert await scene.next() == CaughtUp(frozenset({RELEASED.id}), "main")


async def test_a_forgotten_gang_is_not_told_of():
    scene = Scene(replace(RELEASED, phase="forgotten"))
    assert await scene.next() == CaughtUp(frozenset(), "main")


async def test_each_fact_is_told_once():
    scene = Scene(RELEASED)
    assert isinstance(await scene.next(), CaughtUp)
    scene.picture.take_pods(Changed(replace(POD, waiting="image")))
    assert (await scene.next()).reason == "image"
    scene.picture.take_pods(Changed(replace(POD, waiting="image", uid="x")))
    scene.picture.take_pods(Changed(RUNNING))
    assert (await scene.next()).id == f"{REF.id}/started"
    scene.picture.take_pods(Changed(ENDED))
    assert (await scene.next()).exit.code == 3
    scene.picture.take_pods(Gone(ENDED))
    assert await scene.nothing()


async def test_an_end_is_noted_when_its_pod_does_not_stay_to_tell_it():
    scene = Scene(RELEASED)
    await scene.next()
    scene.picture.take_pods(Changed(ENDED))
    await scene.next()
    await scene.next()
    assert not scene.noted
    scene.picture.take_pods(Changed(replace(ENDED, deleted_at=START)))
    await scene.nothing()
    assert [(key, end.at) for key, end in scene.noted] == [(KEY, START)]


async def test_a_replica_is_told_where_it_really_is():
    scene = Scene(RELEASED)
    await scene.next()
    scene.picture.take_pods(Changed(replace(RUNNING, node="node-b")))
    assert (await scene.next()).replica.node == node_id("main", "node-b")


async def test_time_alone_loses_a_node_and_what_runs_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("services.scheduler.engines.kubernetes.observing.SWEEP_S", 0.01)
    scene = Scene(RELEASED)
    await scene.next()
    scene.picture.take_pods(Changed(RUNNING))
    await scene.next()
    silent = NodeSeen("node-a", Amounts(1, 1, 0), not_ready_since=START, not_ready_because="silent")
    scene.picture.take_nodes(Changed(silent))
    await scene.clock.advance(300)
    assert (await scene.next()).exit.message == "its node node-a was lost (silent)"
