"""Which pods' events are asked for, and what becomes of the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.engines.kubernetes.gangs import GangSeen
from services.scheduler.engines.kubernetes.inquiries import PODS_AT_ONCE, PODS_OF_A_GANG, Inquiries
from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.engines.kubernetes.pods import PodSeen, pod_seen
from services.scheduler.ports.reports import ReplicaRef
from shared.clock import ManualClock, rfc3339
from shared.errors import UnavailableError
from shared.ids import GangId
from shared.kubernetes.access import ApiError
from shared.kubernetes.watch import Changed
from tests.support.jobs import START
from tests.support.kubernetes.documents import pod_document, waiting

WAITS_S = 5
LATER = START + timedelta(seconds=WAITS_S)
MESSAGE = 'error processing PVC jobs/team-data: persistentvolumeclaims "team-data" not found'
MISSING = {"reason": "FailedMount", "message": MESSAGE, "lastTimestamp": rfc3339(START)}
IN_WORDS = "the claim team-data does not exist in namespace jobs"
PREPARES = pod_seen(pod_document(status=waiting("ContainerCreating"))).waiting


class Events:
    """An API server that has the same events for every pod, or none but an error."""

    def __init__(self) -> None:
        self.answer: dict | Exception = {"items": [MISSING]}
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, query: dict) -> dict:
        assert (method, path) == ("GET", "/api/v1/namespaces/jobs/events")
        self.asked.append(query["fieldSelector"].removeprefix("involvedObject.uid="))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Scene:
    """Gangs that were released at the beginning, and of which so many pods wait."""

    def __init__(self, **waiting_pods: int) -> None:
        self.clock, self.events = ManualClock(LATER), Events()
        self.picture = Picture(self.clock, lost_after_s=300)
        self.inquiries = Inquiries(self.events, self.picture, self.clock, WAITS_S)
        for gang, count in waiting_pods.items():
            self.add(gang, count)

    def add(self, gang: str, count: int, **record) -> None:
        refs = {("worker", index): ReplicaRef(gang, 1, "worker", index, "n-1") for index in range(count)}
        seen = GangSeen(GangId(gang), "jobs", f"uid-{gang}", 1, "released", refs, released_at=START)
        self.picture.take_gangs(Changed(replace(seen, **record)))
        for index in range(count):
            self.put(gang, index)

    def put(self, gang: str, index: int, **changes) -> None:
        pod = PodSeen("jobs", f"{gang}-{index}", f"{gang}-{index}", gang, "worker", index, "node-a", waiting=PREPARES)
        self.picture.take_pods(Changed(replace(pod, **changes)))

    def waits_for(self, gang: str, index: int = 0) -> str:
        return self.picture.judge(gang, ("worker", index)).waiting


async def test_what_an_event_says_takes_the_place_of_what_the_pod_does_not_say():
    scene = Scene(a=1)
    assert scene.waits_for("a") == PREPARES
    await scene.inquiries.ask()
    assert scene.waits_for("a") == IN_WORDS


async def test_what_the_pod_says_itself_counts_more_and_a_pod_that_runs_waits_for_nothing():
    scene = Scene(a=1)
    await scene.inquiries.ask()
    scene.put("a", 0, waiting="the image cannot be pulled")
    assert scene.waits_for("a") == "the image cannot be pulled"
    scene.put("a", 0, started_at=START, waiting="")
    assert scene.waits_for("a") == ""


async def test_who_follows_the_picture_is_told_of_a_reason_once():
    scene, heard = Scene(a=1), []
    scene.picture.listen(lambda gang, key: heard.append((gang, key)))
    await scene.inquiries.ask()
    await scene.inquiries.ask()
    assert heard == [("a", ("worker", 0))]


async def test_a_reason_that_no_event_gives_any_more_is_forgotten():
    scene = Scene(a=1)
    await scene.inquiries.ask()
    scene.events.answer = {"items": []}
    await scene.inquiries.ask()
    assert scene.waits_for("a") == PREPARES


@pytest.mark.parametrize(
    "pod",
    [
        {"started_at": START, "waiting": ""},
        {"waiting": "its image cannot be pulled"},
        {"deleted_at": START},
        {"node": "", "waiting": ""},
    ],
)
async def test_no_events_are_asked_for_of_a_pod_that_needs_none(pod):
    scene = Scene(a=1)
    scene.put("a", 0, **pod)
    await scene.inquiries.ask()
    assert scene.events.asked == []


@pytest.mark.parametrize(
    "record",
    [
        {"released_at": None, "phase": "creating"},
        {"released_at": LATER - timedelta(seconds=1)},
        {"phase": "stopping"},
    ],
)
async def test_a_gang_that_is_not_long_released_or_stops_is_left_alone(record):
    scene = Scene()
    scene.add("a", 1, **record)
    await scene.inquiries.ask()
    assert scene.events.asked == []


async def test_of_large_gangs_a_few_pods_are_asked_at_a_time_and_all_in_turn():
    scene = Scene(a=2 * PODS_OF_A_GANG)
    await scene.inquiries.ask()
    assert len(scene.events.asked) == PODS_OF_A_GANG
    await scene.inquiries.ask()
    assert set(Counter(scene.events.asked).values()) == {1}
    assert len(scene.events.asked) == 2 * PODS_OF_A_GANG


async def test_a_round_has_its_limit_however_many_gangs_wait():
    scene = Scene(**{f"g{number}": 1 for number in range(2 * PODS_AT_ONCE)})
    await scene.inquiries.ask()
    assert len(scene.events.asked) == PODS_AT_ONCE
    await scene.inquiries.ask()
    assert len(set(scene.events.asked)) == 2 * PODS_AT_ONCE


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "events is forbidden"), UnavailableError("away")])
async def test_without_the_right_to_list_events_everything_else_is_as_before(error):
    scene = Scene(a=1)
    scene.events.answer = error
    await scene.inquiries.ask()
    assert scene.waits_for("a") == PREPARES
