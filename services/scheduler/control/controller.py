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
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, Final

import structlog

from services.scheduler.control.alarms import Alarms
from services.scheduler.control.gangs import Gangs
from services.scheduler.control.journal import Journal
from services.scheduler.control.recorder import Recorder, Write
from services.scheduler.control.troubles import Troubles
from services.scheduler.control.world import World
from services.scheduler.domain.keeping import kept_until
from services.scheduler.domain.placement import holds_capacity, preemption_of
from services.scheduler.domain.planning.plan import plan
from services.scheduler.domain.planning.preempt import Eviction
from services.scheduler.domain.reconcile import (
    Action,
    Replace,
    Report,
    SaveData,
    Situation,
    StartGang,
    StopGang,
    next_step,
)
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.ports.engine import Engine
from services.scheduler.ports.starter import Starter
from shared.bus import Bus, ConcurrentWriteError, FencedError
from shared.bus.bus import JOB_SUBJECTS
from shared.clock import Clock
from shared.ids import gang_id
from shared.jobs import Job, JobState, Recorded
from shared.readmodel import JobReadModel
from shared.tasks import end

TROUBLE_PAUSE_S: Final = 5.0
REPLAN_S: Final = 15.0
# Stands for the plan among the jobs that have alarms; no job has this id.
PLANNING: Final = ""
ORPHAN_GRACE_S: Final = 10.0
CATCH_UP_S: Final = 10.0
"""How long clusters are waited for at the beginning where there are several."""


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
        clusters: Collection[str],
        starter: Starter,
        clock: Clock,
        metrics: SchedulerMetrics,
        troubles: Troubles,
    ) -> None:
        self._bus = bus
        self._recorder = Recorder(journal, world, metrics)
        self._jobs = jobs
        self._world = world
        self._starter = starter
        self._clock = clock
        self._metrics = metrics
        self._clusters = clusters
        self._troubles = troubles
        self._gangs = Gangs(engine, clock, self._on_gang_changed, troubles, self._look_at_all)
        self._alarms = Alarms()
        self._dirty: set[str] = set()
        self._busy: set[str] = set()
        self._reported_at: dict[str, datetime] = {}
        self._replan = True
        self._has_taken_over = False
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

        Of several clusters, those that do not answer soon are not waited for: their gangs are left alone until they do.
        Nobody can write for an earlier epoch any more, so what is in the stream now is all there is; a gang that no job
        knows is an orphan then, and not one whose job this read model has yet to hear of.
        """
        await self._jobs.reached(await self._recorder.insist(lambda: self._bus.history.last_sequence(JOB_SUBJECTS[0])))
        self._spawn(self._gangs.observe())
        known = asyncio.create_task(self._gangs.caught_up(self._clusters))
        patience = [asyncio.create_task(self._clock.sleep(CATCH_UP_S))] if len(self._clusters) > 1 else []
        try:
            await asyncio.wait([known, *patience], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(known, *patience)

    def _take_over(self) -> None:
        """Begin with every live job, and with every gang that no job looks after any more."""
        self._world.take_all(self._jobs.live())
        self._has_taken_over = True
        self._warn_of_foreign_jobs()
        self._look_at_all()

    def _warn_of_foreign_jobs(self) -> None:
        """Most likely the name of a cluster was changed by mistake: jobs there cannot end until it is named again."""
        places = [job.attempt.placement for job in self._jobs.live() if job.attempt.ended is None]
        counts = Counter(
            place.cluster for place in places if place is not None and not self._gangs.knows(place.cluster)
        )
        for cluster in counts.keys() - set(self._clusters):
            self._log.error(
                "cluster_not_in_settings", cluster=cluster, jobs=counts[cluster], settings_name=sorted(self._clusters)
            )

    def _look_at_all(self) -> None:
        """A cluster has told all that it has, or this is the beginning."""
        if not self._has_taken_over:
            return
        for job in self._jobs.live():
            self._troubles.over(gang_id(job.id, job.attempt.number))
            self._touch(job.id)
        for gang in list(self._gangs.known()):
            self._on_gang_changed(gang)

    def _pass(self) -> None:
        now = self._clock.now()
        self._wake.clear()
        due = self._alarms.due(now)
        self._replan |= PLANNING in due
        self._dirty |= due - {PLANNING}
        for job_id in self._dirty - self._busy:
            self._dirty.discard(job_id)
            job = self._jobs.get(job_id)
            if job is not None and not job.ended:
                self._guarded(job_id, partial(self._look, job, now))
        if self._replan:
            self._replan = False
            self._guarded(PLANNING, partial(self._place, now))

    def _guarded(self, job: str, work: Callable[[], None]) -> None:
        """One job that cannot be handled must not keep the others from being looked after."""
        try:
            work()
        except Exception:  # noqa: BLE001  # whatever it is, the other jobs go on
            self._log.exception("decision_failed", job=job)
            self._alarms.wish(job, self._clock.now() + timedelta(seconds=TROUBLE_PAUSE_S))

    def _look(self, job: Job, now: datetime) -> None:
        terms = self._world.terms(job)
        gang = gang_id(job.id, job.attempt.number)
        if terms is None or not self._is_known(job, gang):
            return
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
            waiting=view.waiting,
            replacement=self._world.replacement(job),
        )
        step = next_step(situation, now)
        self._alarms.wish(job.id, step.look_again_at)
        self._call_engine(job, gang, step.actions)
        writes = [action for action in step.actions if isinstance(action, Write)]
        for write in writes:
            self._prepare(job, gang, write, now)
        if writes:
            self._write((job,), self._recorder.record(job, writes, now))

    def _is_known(self, job: Job, gang: str) -> bool:
        """Whether what the job's cluster has of it is known; else the job is left as it is."""
        placement = job.attempt.placement
        if placement is None or job.attempt.ended is not None or self._gangs.knows(placement.cluster):
            return True
        if placement.cluster in self._clusters:
            self._troubles.unknown(gang, placement.cluster)
        else:
            self._troubles.foreign(gang, placement.cluster, self._clusters)
        return False

    def _prepare(self, job: Job, gang: str, write: Write, now: datetime) -> None:
        """What others must know before it is on record."""
        if isinstance(write, Report):
            self._reported_at[gang] = now
        elif isinstance(write, Replace):
            self._world.move(job, write.replacement.seats)
            self._replan = True

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
        decided = plan(self._world.snapshot(but=self._busy), now)
        self._world.note(decided)
        for start in decided.starts:
            job = self._jobs.get(start.gang.job)
            if job is not None and job.state is JobState.QUEUED:
                self._world.reserve(start.gang, start.seats, now)
                self._write((job,), self._recorder.record_placement(job, start, now))
        for _, evictions in groupby(decided.evictions, key=lambda eviction: eviction.by.job):
            self._make_room(tuple(evictions), now)
        self._metrics.queued.set(self._world.queued)
        # Time alone may change a plan: a gang grows older, another has had its protected time.
        self._alarms.wish(PLANNING, now + timedelta(seconds=REPLAN_S) if self._world.queued else None)

    def _make_room(self, evictions: tuple[Eviction, ...], now: datetime) -> None:
        """Have all of these gangs stopped, unless one of them is no longer what the plan thought."""
        jobs = [self._jobs.get(eviction.victim.job) for eviction in evictions]
        there = tuple(job for job in jobs if job is not None and holds_capacity(job) and job.id not in self._busy)
        if len(there) == len(evictions):
            requests = tuple(preemption_of(eviction) for eviction in evictions)
            self._write(there, self._recorder.record_preemptions(tuple(zip(there, requests, strict=True)), now))

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

    def _write(self, jobs: tuple[Job, ...], write: Coroutine[None, None, int]) -> None:
        self._busy.update(job.id for job in jobs)
        self._spawn(self._written(jobs, write))

    async def _written(self, jobs: tuple[Job, ...], write: Coroutine[None, None, int]) -> None:
        try:
            await self._jobs.reached(await self._settled(jobs, write))
        except FencedError:
            raise
        except Exception:  # noqa: BLE001  # whatever it is, the other jobs go on
            self._log.exception("write_failed", jobs=[job.id for job in jobs])
            await self._clock.sleep(TROUBLE_PAUSE_S)
        finally:
            self._busy.difference_update(job.id for job in jobs)
        for job in jobs:
            self._look_anew(job.id)

    def _look_anew(self, job_id: str) -> None:
        present = self._jobs.get(job_id)
        if present is not None:
            self._world.take(present)
            self._replan |= present.state is JobState.QUEUED
        self._touch(job_id)

    async def _settled(self, jobs: tuple[Job, ...], write: Coroutine[None, None, int]) -> int:
        """Sequence of what was written, or of what somebody else wrote before."""
        try:
            return await write
        except ConcurrentWriteError as error:
            self._log.info("write_lost", jobs=[job.id for job in jobs], reason=error.message)
            last = [await self._bus.history.last_state(job.id) for job in jobs]
            return max((recorded.sequence for recorded in last if recorded), default=0)

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
