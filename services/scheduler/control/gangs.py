"""The engine as the controller sees it: what it told of each gang, and the calls that were made.

`observe` keeps the view; it starts anew whenever the engine's stream breaks. Calls never hold the controller up: they
run beside it, one after the other for each gang, and what comes of them shows in the gang's view. A call that failed
for no known reason is forgotten after a pause, so that the controller, which looks at the view, makes it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import structlog

from services.scheduler.control.troubles import Troubles
from services.scheduler.domain.progress import Refusal
from services.scheduler.ports.engine import Engine, PlaceTakenError, StartRefusedError
from services.scheduler.ports.reports import (
    CaughtUp,
    Observation,
    ReplicaExited,
    ReplicaRef,
    ReplicaStarted,
    ReplicaWaiting,
)
from shared.clock import Clock
from shared.ids import GangId
from shared.jobs import Replica, replica_key

RETRY_PAUSE_S: Final = 1.0


@dataclass(slots=True)
class GangView:
    """One gang: `replicas` is None while the engine has told nothing of it; `waiting` says why some do not run yet."""

    replicas: dict[str, Replica] | None = None
    start_called: bool = False
    stop_called: bool = False
    save_called: bool = False
    refusal: Refusal | None = None
    waiting: dict[str, str] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Gangs:
    """Views of all gangs that the engine knows or was asked to start."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        on_change: Callable[[str], None],
        troubles: Troubles,
        on_caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._on_caught_up = on_caught_up
        self._clock = clock
        self._on_change = on_change
        self._troubles = troubles
        self._views: dict[str, GangView] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger(service="scheduler")
        self._caught_up: set[str] = set()
        self._moved = asyncio.Event()

    async def caught_up(self, clusters: Collection[str]) -> None:
        """Return once all that these clusters have is known."""
        while not all(map(self.knows, clusters)):
            self._moved.clear()
            await self._moved.wait()

    def knows(self, cluster: str) -> bool:
        """Whether all that the cluster has is known; an engine that names no cluster speaks for all."""
        return cluster in self._caught_up or "" in self._caught_up

    def view(self, gang: str) -> GangView:
        """What is known of the gang."""
        return self._views.get(gang) or GangView()

    def known(self) -> Mapping[str, GangView]:
        """All views by gang."""
        return self._views

    def start(self, gang: str, begin: Callable[[], Awaitable[None]]) -> None:
        """Have `begin` prepare the gang and call the engine."""
        view = self._views.setdefault(gang, GangView())
        view.start_called = True
        self._call(gang, view, self._start(gang, view, begin))

    def stop(self, gang: str, grace_s: float) -> None:
        """Have the engine stop the gang, after a start that is still under way."""
        view = self._views.setdefault(gang, GangView())
        view.stop_called = True
        self._call(gang, view, self._stop(gang, view, grace_s))

    def save(self, gang: str, save: Callable[[], Awaitable[None]]) -> None:
        """Have `save` bring away what the gang wrote."""
        view = self._views.setdefault(gang, GangView())
        view.save_called = True
        self._call(gang, view, self._save(view, save))

    def forget(self, gang: str, keep_until: datetime | None = None) -> None:
        """Tell the engine that everything about the gang is on record, and how long to hold what it left."""
        view = self._views.pop(gang, None)
        if view is not None:
            self._troubles.waits(gang, None)
            self._call(gang, view, self._engine.forget(GangId(gang), keep_until))

    async def observe(self) -> None:
        """Follow what the engine reports; ends only when cancelled."""
        while True:
            try:
                async for observation in self._engine.observe():
                    self._take(observation)
                self._log.error("engine_reports_ended")
            except Exception:  # noqa: BLE001  # an engine that broke is asked anew
                self._log.exception("engine_reports_broken")
            await self._clock.sleep(RETRY_PAUSE_S)

    async def close(self) -> None:
        """Wait for the calls that are under way; the engine completes what it began."""
        while self._calls:
            await asyncio.gather(*self._calls, return_exceptions=True)

    def _call(self, gang: str, view: GangView, call: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(self._in_turn(gang, view, call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _in_turn(self, gang: str, view: GangView, call: Coroutine[None, None, None]) -> None:
        async with view.turn:
            try:
                await call
            except Exception as error:  # noqa: BLE001  # a call that failed is made again
                self._log.exception("engine_call_failed", gang=gang)
                self._troubles.note(gang, error)
                await self._clock.sleep(RETRY_PAUSE_S)
                view.start_called = view.stop_called = view.save_called = False
                self._views.setdefault(gang, view)  # one that could not be forgotten is still to be looked after
            else:
                self._troubles.over(gang)
        self._on_change(gang)

    async def _start(self, gang: str, view: GangView, begin: Callable[[], Awaitable[None]]) -> None:
        try:
            await begin()
        except StartRefusedError as error:
            self._log.warning("start_refused", gang=gang, reason=error.message)
            displaced = isinstance(error, PlaceTakenError)
            view.refusal = Refusal(self._clock.now(), error.message, displaced=displaced)

    async def _save(self, view: GangView, save: Callable[[], Awaitable[None]]) -> None:
        await save()
        view.save_called = False

    async def _stop(self, gang: str, view: GangView, grace_s: float) -> None:
        if not await self._engine.stop(GangId(gang), grace_s):
            # Nothing of it runs: as if it had never been started.
            view.start_called = False
            view.replicas = None

    def _take(self, observation: Observation) -> None:
        match observation:
            case CaughtUp(gangs, cluster):
                for gang in gangs:
                    self._replicas_of(gang)
                self._caught_up.add(cluster)
                self._moved.set()
                self._log.info("engine_caught_up", cluster=cluster, gangs=len(gangs))
                self._on_caught_up()
            case ReplicaWaiting(replica, _, reason):
                self._wait(replica, reason)
            case ReplicaStarted(replica, at):
                self._update(replica, started_at=at)
            case ReplicaExited(replica, at, end):
                self._update(replica, ended_at=at, exit=end)

    def _wait(self, ref: ReplicaRef, reason: str) -> None:
        view = self._views.setdefault(ref.gang, GangView())
        view.waiting[replica_key(ref.role, ref.index)] = reason
        self._troubles.waits(ref.gang, partial(_still_waiting, view))
        self._on_change(ref.gang)

    def _update(self, ref: ReplicaRef, **changes: object) -> None:
        replicas = self._replicas_of(ref.gang)
        key = replica_key(ref.role, ref.index)
        replica = replicas.get(key) or Replica(role=ref.role, index=ref.index, node=ref.node)
        replicas[key] = replica = replica.model_copy(update=changes)
        if replica.started_at is not None:
            self._views[ref.gang].waiting.pop(key, None)
        self._on_change(ref.gang)

    def _replicas_of(self, gang: str) -> dict[str, Replica]:
        view = self._views.setdefault(gang, GangView())
        if view.replicas is None:
            view.replicas = {}
        return view.replicas


def _still_waiting(view: GangView) -> dict[str, str]:
    """What keeps replicas from running now: a reason outlives the replica's end, since it explains it."""
    replicas = view.replicas or {}
    ended = {key for key, replica in replicas.items() if replica.exit is not None}
    return {key: reason for key, reason in view.waiting.items() if key not in ended}
