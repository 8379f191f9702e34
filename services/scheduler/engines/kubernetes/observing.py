"""Turns the picture into reports: what is known of every gang, then what is new, each fact once.

The picture says which replicas something is new about; each of them is judged, and what that adds to what was told
before is reported. Time alone makes news, too: a node that has been silent for too long is lost with all that ran
there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from services.scheduler.engines.kubernetes.gangs import GangSeen, Key
from services.scheduler.engines.kubernetes.picture import ALL, Picture
from services.scheduler.engines.kubernetes.pods import Ended
from services.scheduler.engines.kubernetes.verdicts import Verdict
from services.scheduler.ports.reports import (
    CaughtUp,
    Observation,
    ReplicaExited,
    ReplicaRef,
    ReplicaStarted,
    ReplicaWaiting,
)
from shared.clock import Clock
from shared.kubernetes.names import node_id

SWEEP_S: Final = 2.0
# How long news are gathered before they are looked at, so that a gang of thousands is not looked at for each pod.
GATHER_S: Final = 0.02

Note = Callable[[GangSeen, Key, Ended], None]


@dataclass(frozen=True, slots=True)
class _Told:
    """What was reported of a replica, and whether its end is `kept` by something that outlives its pod."""

    started: bool = False
    ended: bool = False
    kept: bool = False
    waiting: str = ""


class Observer:
    """One reader of the picture; `note` is told of ends that nothing but the record would remember."""

    def __init__(self, picture: Picture, cluster: str, clock: Clock, note: Note) -> None:
        self._picture = picture
        self._cluster = cluster
        self._clock = clock
        self._note = note
        self._told: dict[str, dict[Key, _Told]] = {}
        self._dirty: defaultdict[str, set[Key]] = defaultdict(set)
        self._rung = asyncio.Event()
        self._lost: frozenset[str] = frozenset()

    async def reports(self) -> AsyncIterator[Observation]:
        """What is known of every gang that is not forgotten, then `CaughtUp`, then what happens, without end."""
        picture = self._picture
        for ready in (picture.has_gangs, picture.has_nodes, picture.has_pods):
            await ready.wait()
        unlisten = picture.listen(self._hear)
        try:
            known = [gang for gang, life in picture.gangs.items() if life.record and not life.record.is_forgotten]
            self._dirty.update((gang, {ALL}) for gang in known)
            for observation in tuple(self._news()):
                yield observation
            lives = [life for life in map(picture.gangs.get, known) if life]
            yield CaughtUp(frozenset(life.record.id for life in lives if life.record), self._cluster)
            while True:
                await self._wait()
                for observation in tuple(self._news()):
                    yield observation
        finally:
            unlisten()

    def _hear(self, gang: str, key: Key) -> None:
        self._dirty[gang].add(key)
        self._rung.set()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SWEEP_S):
                await self._rung.wait()
                await asyncio.sleep(GATHER_S)
        self._rung.clear()
        lost = self._picture.losses()
        for gang, key in self._picture.gangs_on(lost - self._lost):
            self._dirty[gang].add(key)
        self._lost = lost

    def _news(self) -> Iterator[Observation]:
        dirty, self._dirty = self._dirty, defaultdict(set)
        for gang, keys in dirty.items():
            life = self._picture.gangs.get(gang)
            if life is None or life.record is None or life.record.is_forgotten:
                self._told.pop(gang, None)
                continue
            told = self._told.setdefault(gang, {})
            for key in life.record.replicas if ALL in keys else keys:
                yield from self._news_of(life.record, key, told)

    def _news_of(self, gang: GangSeen, key: Key, told: dict[Key, _Told]) -> Iterator[Observation]:
        before = told.get(key, _Told())
        if before.kept or key not in gang.replicas:
            return
        verdict = self._picture.judge(gang.id, key)
        if not before.ended:
            yield from self._reports_of(gang, key, verdict, before)
        kept = verdict.ended is not None and not self._tells_itself(gang.id, key)
        if kept and verdict.ended is not None and key not in gang.noted:
            self._note(gang, key, verdict.ended)
        started = before.started or verdict.started_at is not None
        told[key] = _Told(started, before.ended or verdict.ended is not None, kept, verdict.waiting)

    def _reports_of(self, gang: GangSeen, key: Key, verdict: Verdict, before: _Told) -> Iterator[Observation]:
        if verdict.started_at is not None and not before.started:
            yield ReplicaStarted(self._placed(gang, key), verdict.started_at)
        if verdict.ended is not None:
            yield ReplicaExited(self._placed(gang, key), verdict.ended.at, verdict.ended.exit)
        elif verdict.waiting and verdict.waiting != before.waiting:
            yield ReplicaWaiting(self._placed(gang, key), self._clock.now(), verdict.waiting)

    def _placed(self, gang: GangSeen, key: Key) -> ReplicaRef:
        """The replica where it really is: Kubernetes may have chosen another node."""
        ref, life = gang.replicas[key], self._picture.gangs[gang.id]
        pod = life.pods.get(key) or (life.gone[key].pod if key in life.gone else None)
        return replace(ref, node=node_id(self._cluster, pod.node)) if pod is not None and pod.node else ref

    def _tells_itself(self, gang: str, key: Key) -> bool:
        """Whether the pod is there to stay and says itself how it ended."""
        pod = self._picture.gangs[gang].pods.get(key)
        return pod is not None and pod.ended is not None and pod.deleted_at is None
