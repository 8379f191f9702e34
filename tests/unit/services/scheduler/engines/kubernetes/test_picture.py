"""What the watches add up to, in whatever order they bring it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.engines.kubernetes.nodes import Amounts, NodeSeen, OtherPod
from services.scheduler.engines.kubernetes.picture import SILENT_AFTER_S, Picture, Silence
from services.scheduler.engines.kubernetes.pods import Ended
from shared.clock import ManualClock
from shared.events import ReplicaExit
from shared.kubernetes.watch import Changed, Gone, Listed, Unreachable, Watching
from tests.support.jobs import START
from tests.unit.services.scheduler.engines.kubernetes.test_verdicts import CREATING, KEY, POD, RELEASED, RUNNING

GANG = RELEASED.id
NODE = NodeSeen("node-a", Amounts(1000, 1000, 0))
SILENT = replace(NODE, not_ready_since=START, not_ready_because="silent")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def picture(clock) -> Picture:
    made = Picture(clock, lost_after_s=300)
    made.take_nodes(Listed((NODE,)))
    return made


def news_of(picture: Picture) -> list:
    heard: list = []
    picture.listen(lambda gang, key: heard.append((gang, key)))
    return heard


def test_a_pod_may_be_seen_before_its_record(picture):
    picture.take_pods(Changed(RUNNING))
    assert picture.judge(GANG, KEY).started_at is None
    picture.take_gangs(Changed(RELEASED))
    assert picture.judge(GANG, KEY).started_at == START


def test_only_what_is_new_is_told(picture):
    picture.take_gangs(Changed(RELEASED))
    heard = news_of(picture)
    picture.take_pods(Changed(POD))
    picture.take_pods(Changed(POD))
    picture.take_pods(Changed(RUNNING))
    assert heard == [(GANG, KEY), (GANG, KEY)]


def test_a_new_list_shows_which_pods_are_gone(picture):
    picture.take_gangs(Listed((RELEASED,)))
    picture.take_pods(Listed((RUNNING,)))
    picture.take_pods(Listed(()))
    assert picture.judge(GANG, KEY).ended.exit.cause == "lost"


def test_a_pod_that_was_never_seen_has_vanished_only_if_the_list_was_asked_for_after_the_release(picture):
    picture.take_gangs(Listed((CREATING,)))
    picture.pods_are_asked_for()
    picture.take_gangs(Changed(replace(RELEASED, version=2)))
    picture.take_pods(Listed(()))
    assert picture.judge(GANG, KEY).ended is None
    picture.pods_are_asked_for()
    picture.take_pods(Listed(()))
    assert picture.judge(GANG, KEY).ended.exit.message == "its pod vanished while nobody watched"


@pytest.mark.parametrize("last", [Changed, Gone])
def test_a_pod_was_deleted_when_that_was_first_asked_for_not_when_its_kubelet_lets_it_go(picture, last):
    picture.take_gangs(Changed(RELEASED))
    ended = replace(RUNNING, ended=Ended(START, ReplicaExit(code=143)), deleted_at=START)
    picture.take_pods(Changed(ended))
    picture.take_pods(last(replace(ended, deleted_at=START + timedelta(seconds=10))))
    assert picture.judge(GANG, KEY).ended.exit.message == "somebody deleted its pod"


def test_an_older_record_says_nothing_new(picture):
    picture.take_record(replace(RELEASED, version=7))
    picture.take_gangs(Changed(replace(CREATING, version=6)))
    assert not picture.gangs[GANG].record.is_creating


def test_a_pod_that_was_made_again_is_not_gone(picture):
    picture.take_gangs(Changed(CREATING))
    picture.take_pods(Changed(POD))
    picture.take_pods(Gone(POD))
    picture.take_pods(Changed(replace(RUNNING, uid="another")))
    picture.take_pods(Gone(POD))
    picture.take_gangs(Changed(replace(RELEASED, version=2)))
    assert picture.judge(GANG, KEY).ended is None


def test_a_gang_is_remembered_until_its_record_and_its_pods_are_gone_and_it_is_forgotten(picture):
    forgotten = replace(RELEASED, phase="forgotten", version=2)
    picture.take_gangs(Changed(forgotten))
    picture.take_pods(Changed(RUNNING))
    picture.take_gangs(Gone(forgotten))
    assert GANG in picture.gangs
    picture.take_pods(Gone(RUNNING))
    assert GANG not in picture.gangs


def test_a_gang_whose_record_somebody_deleted_still_tells_what_became_of_its_pods(picture):
    picture.take_gangs(Changed(RELEASED))
    picture.take_pods(Changed(RUNNING))
    picture.take_gangs(Gone(RELEASED))
    picture.take_pods(Gone(RUNNING))
    assert picture.judge(GANG, KEY).ended.exit.cause == "lost"


async def test_a_node_is_lost_when_it_was_silent_for_too_long(picture, clock):
    picture.take_gangs(Changed(RELEASED))
    picture.take_pods(Changed(RUNNING))
    picture.take_nodes(Changed(SILENT))
    await clock.advance(299)
    assert picture.losses() == frozenset()
    await clock.advance(1)
    assert picture.losses() == {"node-a"}
    assert list(picture.gangs_on(picture.losses())) == [(GANG, KEY)]
    assert picture.judge(GANG, KEY).ended.exit.message == "its node node-a was lost (silent)"
    picture.take_nodes(Changed(NODE))
    assert picture.losses() == frozenset()


async def test_a_node_that_is_no_more_is_lost_a_while_after_it_left(picture, clock):
    picture.take_nodes(Gone(NODE))
    await clock.advance(300)
    assert picture.loss("node-a").why == "Kubernetes has no such node any more"


def test_what_others_hold_is_counted_by_node(picture):
    one, two = OtherPod("1", "node-a", Amounts(100, 10, 1)), OtherPod("2", "node-a", Amounts(50, 5, 0))
    picture.take_others(Listed((one, two)))
    assert picture.held_by_others("node-a") == Amounts(150, 15, 1)
    picture.take_others(Changed(replace(one, held=Amounts())))
    picture.take_others(Gone(two))
    assert picture.held_by_others("node-a") == Amounts()
    assert picture.held_by_others("node-b") == Amounts()


def test_ends_that_are_noted_count_also_before_they_are_written(picture):
    picture.take_gangs(Changed(RELEASED))
    picture.gangs[GANG].ends[KEY] = Ended(START + timedelta(seconds=1), ReplicaExit(code=5))
    assert picture.judge(GANG, KEY).ended.exit.code == 5


async def test_an_api_server_that_is_away_for_a_minute_is_silent_and_loses_no_replica(picture, clock):
    picture.take_nodes(Unreachable("refused"))
    await clock.advance(SILENT_AFTER_S - 1)
    assert picture.silence() is None
    picture.take_nodes(Unreachable("still refused"))
    await clock.advance(1)
    assert picture.silence() == Silence(START, "still refused")
    await clock.advance(3600)
    assert picture.losses() == frozenset()
    picture.take_nodes(Watching())
    assert picture.silence() is None
