"""The controller: one term of leadership, from taking over what runs to being deposed.

It keeps a set of jobs to look at. An event of a job, a report of the engine, a deadline or the end of a write puts the
job into it; each pass takes the set, asks `next_step` for every job and the planner for those that wait for a place,
and hands out what came of it: engine calls to `Gangs`, writes to a task of the job's own. While a job's write is under
way the job is not looked at, and the task ends only when the read model has the event, so that no decision is taken on
a record that this process itself has already moved on from. Jobs do not wait for each other.

Nothing else is remembered here. A new term starts from the record and from what the engine reports, decides the same,
and completes what its predecessor left half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

import structlog

from services.scheduler.control.alarms import Alarms
from services.scheduler.control.gangs import Gangs
from services.scheduler.control.journal import Journal
from services.scheduler.control.world import World
from services.scheduler.domain.keeping import kept_until
from services.scheduler.domain.placement import holds_capacity, placed_event
from services.scheduler.domain.planning.plan import Start, plan
from services.scheduler.domain.reconcile import (
    Action,
    Append,
    Fact,
    Report,
    RequestDiagnosis,
    SaveData,
    Situation,
    StartGang,
    StopGang,
    next_step,
)
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.ports import Engine
from shared.bus import Bus, BusUnavailableError, ConcurrentWriteError, FencedError
from shared.bus.bus import JOB_SUBJECTS
from shared.clock import Clock
from shared.events import DiagnosisRequested
from shared.ids import gang_id
from shared.jobs import Job, JobState, Recorded
from shared.readmodel import JobReadModel
from shared.tasks import end

TROUBLE_PAUSE_S: Final = 5.0
ORPHAN_GRACE_S: Final = 10.0

# Actions that put something on record.
Write = Append | Report | RequestDiagnosis


class Starter(Protocol):
    """Prepares gangs and has the engine start them."""

    async def start(self, job: Job) -> None:
        """Start the job's present attempt; raises StartRefusedError."""
        ...

    async def save(self, gang: str) -> None:
        """Bring away what the gang wrote."""
        ...

    def is_unsaved(self, gang: str) -> bool:
        """Whether the gang may have written something that has to be brought away."""
        ...

    def save_problem(self, gang: str) -> str:
        """What of it is lost nevertheless; empty where nothing is."""
        ...

    def abandon(self, gang: str) -> None:
        """Do not start the gang, where it is still being prepared."""
        ...

    def abandon_all(self) -> None:
        """Start nothing that is still being prepared, and save nothing more."""
        ...


class Controller:
    """Looks after every job until it is cancelled or deposed."""

    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        jobs: JobReadModel,
        world: World,
        engine: Engine,
        starter: Starter,
        clock: Clock,
        metrics: SchedulerMetrics,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._jobs = jobs
        self._world = world
        self._starter = starter
        self._clock = clock
        self._metrics = metrics
        self._gangs = Gangs(engine, clock, self._on_gang_changed)
        self._alarms = Alarms()
        self._dirty: set[str] = set()
        self._busy: set[str] = set()
        self._reported_at: dict[str, datetime] = {}
        self._replan = True
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._log = structlog.get_logger(service="scheduler")

    async def run(self) -> None:
        """Work until cancelled; raises FencedError where another scheduler has taken over."""
        try:
            await self._catch_up()
            self._take_over()
            while self._failure is None:
                self._pass()
                await self._pause()
            raise self._failure
        finally:
            await end(*self._tasks)
            self._starter.abandon_all()
            await self._gangs.close()

    # --- what happened

    def on_event(self, before: Job | None, after: Job, recorded: Recorded) -> None:
        """A job has moved; the world has taken it over already."""
        number = recorded.event.attempt
        if number is not None and not _is_attended(after, number):
            self._tidy(gang_id(after.id, number))
        held = before is not None and holds_capacity(before)
        self._replan |= after.state is JobState.QUEUED or held != holds_capacity(after)
        self._touch(after.id)

    def on_cluster_changed(self) -> None:
        """Nodes or pools have changed."""
        self._replan = True
        self._wake.set()

    def _on_gang_changed(self, gang: str) -> None:
        job_id, number = _split(gang)
        job = self._jobs.get(job_id)
        if job is not None and _is_attended(job, number):
            self._touch(job_id)
        else:
            self._tidy(gang)

    def _touch(self, job: str) -> None:
        self._dirty.add(job)
        self._wake.set()

    # --- what to do about it

    async def _catch_up(self) -> None:
        """Know all that any predecessor has put on record, and after that all that the engine knows.

        Nobody can write for an earlier epoch any more, so what is in the stream now is all there is; a gang that no job
        knows is an orphan then, and not one whose job this read model has yet to hear of.
        """
        await self._jobs.reached(await self._insist(lambda: self._bus.history.last_sequence(JOB_SUBJECTS[0])))
        self._spawn(self._gangs.observe())
        await self._gangs.caught_up.wait()

    def _take_over(self) -> None:
        """Begin with every live job, and with every gang that no job looks after any more."""
        self._world.take_all(self._jobs.live())
        self._dirty |= {job.id for job in self._jobs.live()}
        for gang in list(self._gangs.known()):
            self._on_gang_changed(gang)

    def _pass(self) -> None:
        now = self._clock.now()
        self._wake.clear()
        self._dirty |= self._alarms.due(now)
        for job_id in self._dirty - self._busy:
            self._dirty.discard(job_id)
            job = self._jobs.get(job_id)
            if job is not None and not job.ended:
                self._guarded(job_id, partial(self._look, job, now))
        if self._replan:
            self._replan = False
            self._guarded("", partial(self._place, now))

    def _guarded(self, job: str, work: Callable[[], None]) -> None:
        """One job that cannot be handled must not keep the others from being looked after."""
        try:
            work()
        except Exception:  # noqa: BLE001  # whatever it is, the other jobs go on
            self._log.exception("decision_failed", job=job)
            self._alarms.wish(job, self._clock.now() + timedelta(seconds=TROUBLE_PAUSE_S))

    def _look(self, job: Job, now: datetime) -> None:
        terms = self._world.terms(job)
        if terms is None:
            return
        gang = gang_id(job.id, job.attempt.number)
        view = self._gangs.view(gang)
        situation = Situation(
            job,
            terms,
            view.replicas,
            start_called=view.start_called,
            stop_called=view.stop_called,
            reported_at=self._reported_at.get(gang),
            refusal=view.refusal,
            unsaved=self._starter.is_unsaved(gang),
            save_called=view.save_called,
            save_problem=self._starter.save_problem(gang),
        )
        step = next_step(situation, now)
        self._alarms.wish(job.id, step.look_again_at)
        self._call_engine(job, gang, step.actions)
        writes = [action for action in step.actions if isinstance(action, Write)]
        if writes:
            self._write(job, self._record(job, gang, writes, now))

    def _call_engine(self, job: Job, gang: str, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case StartGang():
                    self._log.info("gang_start", job=job.id, attempt=job.attempt.number)
                    self._gangs.start(gang, lambda: self._starter.start(job))
                case StopGang(grace_s):
                    self._log.info("gang_stop", job=job.id, attempt=job.attempt.number, grace_s=grace_s)
                    self._starter.abandon(gang)
                    self._gangs.stop(gang, grace_s)
                case SaveData():
                    self._log.info("gang_save", job=job.id, attempt=job.attempt.number)
                    self._gangs.save(gang, lambda: self._starter.save(gang))

    def _place(self, now: datetime) -> None:
        for start in plan(self._world.snapshot(but=self._busy), now).starts:
            job = self._jobs.get(start.gang.job)
            if job is not None and job.state is JobState.QUEUED:
                self._world.reserve(start.gang, start.seats, now)
                self._write(job, self._record_placement(job, start, now))
        self._metrics.queued.set(self._world.queued)

    def _tidy(self, gang: str) -> None:
        """Let go of a gang whose end is on record; end one that no job knows."""
        self._reported_at.pop(gang, None)
        view = self._gangs.known().get(gang)
        if view is None:
            return
        job_id, number = _split(gang)
        job = self._jobs.get(job_id)
        on_record = job is not None and any(attempt.number == number and attempt.ended for attempt in job.attempts)
        ended = view.replicas is not None and all(replica.exit for replica in view.replicas.values())
        if on_record or (view.stop_called and ended):
            self._gangs.forget(gang, kept_until(job, number) if job is not None else None)
        elif not view.stop_called:
            self._log.warning("orphan_gang_stopped", gang=gang)
            self._gangs.stop(gang, ORPHAN_GRACE_S)

    # --- writing it down

    def _write(self, job: Job, write: Coroutine[None, None, int]) -> None:
        self._busy.add(job.id)
        self._spawn(self._written(job, write))

    async def _written(self, job: Job, write: Coroutine[None, None, int]) -> None:
        try:
            await self._jobs.reached(await self._settled(job, write))
        except FencedError:
            raise
        except Exception:  # noqa: BLE001  # whatever it is, the other jobs go on
            self._log.exception("write_failed", job=job.id)
            await self._clock.sleep(TROUBLE_PAUSE_S)
        finally:
            self._busy.discard(job.id)
        present = self._jobs.get(job.id)
        if present is not None:
            self._world.take(present)
            self._replan |= present.state is JobState.QUEUED
        self._touch(job.id)

    async def _settled(self, job: Job, write: Coroutine[None, None, int]) -> int:
        """Sequence of what was written, or of what somebody else wrote before."""
        try:
            return await write
        except ConcurrentWriteError as error:
            self._log.info("write_lost", job=job.id, reason=error.message)
            last = await self._bus.history.last_state(job.id)
            return last.sequence if last else 0

    async def _record(self, job: Job, gang: str, actions: list[Write], now: datetime) -> int:
        sequence = 0
        for action in actions:
            match action:
                case Report(changes):
                    self._reported_at[gang] = now
                    sequence = await self._insist(lambda: self._journal.report(job, changes, now))
                case RequestDiagnosis(nodes):
                    request = DiagnosisRequested(
                        nodes=nodes, machines=self._world.machines(nodes), names=self._world.node_names(nodes)
                    )
                    sequence = await self._insist(partial(self._journal.request_diagnosis, job, request, now))
                case Append(facts):
                    sequence = await self._append(job, facts)
        return sequence

    async def _record_placement(self, job: Job, start: Start, now: datetime) -> int:
        terms = self._world.terms(job)
        diagnosing = terms is not None and terms.diagnosing
        names = self._world.node_names({seat.node for seat in start.seats})
        placed = placed_event(job.submitted.resolved, start.seats, names, diagnosing=diagnosing)
        sequence = await self._append(job, (Fact(placed, now, start.gang.attempt),))
        self._metrics.placed.inc()
        return sequence

    async def _append(self, job: Job, facts: tuple[Fact, ...]) -> int:
        sequence = await self._insist(lambda: self._journal.append(job, facts))
        for fact in facts:
            self._metrics.transitions.labels(fact.payload.SUFFIX).inc()
            self._log.info("transition", job=job.id, attempt=fact.attempt, to=fact.payload.SUFFIX)
        return sequence

    async def _insist(self, write: Callable[[], Coroutine[None, None, int]]) -> int:
        """Write, and where NATS is away, the same again: it may have taken the first, and must not get another."""
        while True:
            try:
                return await write()
            except BusUnavailableError as error:
                self._log.warning("write_waits", reason=error.message)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._wake.set()

    async def _pause(self) -> None:
        """Return when something has happened or the next deadline has come."""
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._wake.wait())]
        next_alarm = self._alarms.next()
        if next_alarm is not None:
            until_s = max((next_alarm - self._clock.now()).total_seconds(), 0)
            waits.append(asyncio.create_task(self._clock.sleep(until_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _is_attended(job: Job, number: int) -> bool:
    """Whether this attempt of the job may still have a gang that the controller looks after."""
    return not job.ended and job.attempt.number == number and job.attempt.ended is None


def _split(gang: str) -> tuple[str, int]:
    job, _, number = gang.rpartition("-")
    return job, int(number) if number.isdecimal() else 0
