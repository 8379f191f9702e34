"""Asks for the events of pods that do not start and do not say why, so that somebody can be told what they wait for.

Events are not watched: a large gang that starts makes thousands, and hardly any of them is ever of use. Instead a few
pods are looked up by their own events, `PODS_OF_A_GANG` of each gang and `PODS_AT_ONCE` in all, and only such as wait
for longer than a start usually takes; with each round it is the next ones' turn. So the price does not grow with the
number of pods, and of a gang with many that fail for one reason, the reason is known at once, and only in time that it
is that of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

import structlog

from services.scheduler.engines.kubernetes.complaints import complaint
from services.scheduler.engines.kubernetes.paths import collection_path
from services.scheduler.engines.kubernetes.picture import GangLife, Picture
from services.scheduler.engines.kubernetes.pods import PodSeen
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError, KubernetesApi

PODS_OF_A_GANG: Final = 3
PODS_AT_ONCE: Final = 12
_EVENTS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class _Question:
    """A pod of whose events something may be learnt, and the time from which on they count."""

    pod: PodSeen
    since: datetime


class Inquiries:
    """The questions to one API server."""

    def __init__(self, api: KubernetesApi, picture: Picture, clock: Clock, waits_s: float) -> None:
        self._api = api
        self._picture = picture
        self._clock = clock
        self._waits_s = waits_s
        self._asked: dict[str, int] = {}
        self._round = 0
        self._is_forbidden = False
        self._log = structlog.get_logger(service="scheduler")

    async def ask(self) -> None:
        """One round; what cannot be asked is left for the next."""
        questions = self._questions()
        self._asked = {question.pod.uid: self._asked.get(question.pod.uid, 0) for question in questions}
        self._round += 1
        chosen = self._chosen(questions)
        self._asked.update((question.pod.uid, self._round) for question in chosen)
        await asyncio.gather(*map(self._answer, chosen))

    def _questions(self) -> list[_Question]:
        """One for each pod that waits for something unsaid, for long enough."""
        before = self._clock.now() - timedelta(seconds=self._waits_s)
        return [question for life in self._picture.gangs.values() for question in _questions_of(life, before)]

    def _chosen(self, questions: list[_Question]) -> list[_Question]:
        """Those that were asked longest ago, a few of each gang."""
        chosen: list[_Question] = []
        counts: dict[str, int] = {}
        for question in sorted(questions, key=lambda each: self._asked[each.pod.uid]):
            gang = question.pod.gang
            if counts.get(gang, 0) < PODS_OF_A_GANG and len(chosen) < PODS_AT_ONCE:
                counts[gang] = counts.get(gang, 0) + 1
                chosen.append(question)
        return chosen

    async def _answer(self, question: _Question) -> None:
        pod = question.pod
        query = {"fieldSelector": f"involvedObject.uid={pod.uid}", "limit": _EVENTS_MAX}
        try:
            found = await self._api.request("GET", collection_path("Event", pod.namespace), query=query)
        except UnavailableError:
            return
        except ApiError as error:
            self._note(error)
            return
        words = complaint(found.get("items") or (), pod.node, question.since)
        self._picture.take_complaint(pod.gang, pod.key, words)

    def _note(self, error: ApiError) -> None:
        """Say once that the right to list events is missing."""
        if error.status == HTTPStatus.FORBIDDEN and not self._is_forbidden:
            self._is_forbidden = True
            self._log.warning("events_not_readable", reason=error.said)


def _questions_of(life: GangLife, before: datetime) -> Iterator[_Question]:
    """Pods of a gang that was released before that time; events tell theirs in whole seconds."""
    record = life.record
    if record is None or record.released_at is None or record.is_stopping or record.released_at > before:
        return
    for pod in life.pods.values():
        if pod.waits_for_something_unsaid:
            yield _Question(pod, record.released_at.replace(microsecond=0))
