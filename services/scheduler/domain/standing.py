"""Where a job stands, in a sentence and in numbers: the answer of `explain` for every state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.explain import Explanation, Verdict, explain
from services.scheduler.domain.explaining.changes import Change, Means, changes, most_that_fit
from services.scheduler.domain.explaining.forecast import expected_start
from services.scheduler.domain.explaining.holders import Held, held_in
from services.scheduler.domain.explaining.pairs import pairs
from services.scheduler.domain.explaining.queueing import MayKnow, queue_blocker
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.explaining.whereabouts import Whereabouts
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.plan import Snapshot
from services.scheduler.domain.quotas import is_beyond_quota, quota_blockers
from services.scheduler.domain.terms import REPLACEMENTS_MAX
from shared.clock import rfc3339
from shared.jobs import Attempt, Job, JobState


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants to know: which jobs they may know of, and what changes of the job are made of."""

    may_know: MayKnow = lambda _job: False
    means: Means = field(default_factory=Means)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is told of one job; `position` counts from 1 among the `rivals` that wait for the same pools, itself one.

    `changes` start it now, `advice` helps otherwise; at `expected_at` it starts at the latest if nothing new comes.
    `never_fits`: not with nothing else running, either; `warnings` are of what the job asks for in vain.
    """

    job: str
    state: JobState
    summary: str
    position: int | None = None
    rivals: int | None = None
    blockers: tuple[Blocker, ...] = ()
    held: tuple[Held, ...] = ()
    changes: tuple[Change, ...] = ()
    advice: tuple[str, ...] = ()
    expected_at: datetime | None = None
    place: Whereabouts | None = None
    never_fits: bool = False
    warnings: tuple[str, ...] = ()


def standing_of(job: Job, trials: Trials, place: Whereabouts | None = None) -> Standing:
    """What the job waits for, or what it is doing; without what it takes longer to find out."""
    gang = trials.snapshot.queue.get(job.id)
    if job.state is JobState.QUEUED and gang is not None:
        return waiting(gang, trials)
    return Standing(job.id, job.state, _summary(job), place=place)


def explained(standing: Standing, trials: Trials, asker: Asker) -> Standing:
    """The whole answer for a job that waits: who holds what it lacks, what would start it, and when it may start."""
    gang = trials.snapshot.queue.get(standing.job)
    if gang is None or not standing.blockers:
        return standing
    blockers = standing.blockers
    if any(blocker.resource == "queue" for blocker in blockers):
        blockers = tuple(filter(None, (queue_blocker(gang, trials, asker.may_know),))) or blockers
    single = tuple(changes(gang, trials, asker.means))
    return replace(
        standing,
        summary=standing.summary + _who_is_stopped(gang, trials),
        blockers=blockers,
        held=tuple(_held(gang, blockers, trials.snapshot, asker.may_know)),
        changes=single or pairs(gang, trials, asker.means),
        advice=() if single else _advice(gang, blockers, trials),
        expected_at=expected_start(standing.job, trials),
    )


def _who_is_stopped(gang: Gang, trials: Trials) -> str:
    """How many running jobs make room for it, now or since a moment ago."""
    stopped = sum(eviction.by.job == gang.job for eviction in trials.plan.evictions)
    if stopped:
        return f"; {_jobs(stopped)} of lower priority {'is' if stopped == 1 else 'are'} stopped to make room for it"
    if trials.reservation(gang.job) is None:
        return ""
    ending = sum(each.ending and not each.pools.isdisjoint(gang.pools) for each in trials.snapshot.running.values())
    return f"; {_jobs(ending)} that {'was' if ending == 1 else 'were'} told to stop will make room" if ending else ""


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def place_in_queue(gang: Gang, snapshot: Snapshot) -> tuple[int, int]:
    """The gang's place among those that wait for the same pools, from 1, and how many these are."""
    pools = {role.pool for role in gang.roles}
    rivals = [other.job for other in snapshot.gangs if pools & {role.pool for role in other.roles}]
    return rivals.index(gang.job) + 1, len(rivals)


def waiting(gang: Gang, trials: Trials) -> Standing:
    """Where a waiting gang stands: its place, and what keeps it from starting."""
    snapshot = trials.snapshot
    beyond = quota_blockers(gang, snapshot.quotas, snapshot.usage.used)
    answer = _held_back(beyond) if beyond else explain(gang, snapshot.columns)
    if answer.verdict is Verdict.FITS:
        answer = _in_the_queue(gang, trials)
    position, rivals = place_in_queue(gang, snapshot)
    never = answer.verdict is Verdict.NEVER
    summary = answer.summary if never else f"place {position} of {rivals} in the queue: {answer.summary}"
    return Standing(gang.job, JobState.QUEUED, summary, position, rivals, answer.blockers, never_fits=never)


def warned(standing: Standing, excluded: Collection[str], trials: Trials) -> Standing:
    """The same with a warning of nodes that the job wants to keep off, and that there are none of."""
    layout = trials.snapshot.columns.layout
    unknown = ", ".join(sorted(name for name in excluded if not layout.rows_named((name,))))
    told = (f"excludeNodes names no node that is known: {unknown}",) if unknown else ()
    return replace(standing, warnings=told)


def _in_the_queue(gang: Gang, trials: Trials) -> Explanation:
    blocker = queue_blocker(gang, trials, lambda _job: False)
    if blocker is None:
        return Explanation(Verdict.FITS, "starts now")
    return Explanation(Verdict.WAITS, f"would fit, and waits for its turn: {blocker.detail}", (blocker,))


def _held(gang: Gang, blockers: tuple[Blocker, ...], snapshot: Snapshot, may_know: MayKnow) -> list[Held]:
    """Who holds each resource that a role lacks, in the role's pool."""
    pool_of = {role.name: role.pool for role in gang.roles}
    asked = dict.fromkeys(
        (pool_of[blocker.role], blocker.resource)
        for blocker in blockers
        if blocker.role in pool_of and blocker.resource in ("cpu", "memory", "gpu", "pods")
    )
    return [held_in(snapshot, pool, resource, may_know) for pool, resource in asked]


def _held_back(blockers: tuple[Blocker, ...]) -> Explanation:
    """What is told of a gang that its project's quota holds back, whatever room there is."""
    never = is_beyond_quota(blockers)
    lead = "asks for more than the quota of its project" if never else "is held back by the quota of its project"
    return Explanation(Verdict.NEVER if never else Verdict.WAITS, f"{lead}: {blockers[0].detail}", blockers)


def _advice(gang: Gang, blockers: tuple[Blocker, ...], trials: Trials) -> tuple[str, ...]:
    """What helps where no change of the job alone starts it."""
    if any(blocker.resource.startswith("quota") for blocker in blockers):
        never = is_beyond_quota(blockers)
        return ("a larger quota" if never else "the end of another job of the project, or a larger quota",)
    if fit(gang, Columns.empty(trials.snapshot.columns.layout)) is None:
        return tuple(_largest(gang, trials))
    others = (kept.gang.job for kept in trials.plan.reservations if kept.gang.job != gang.job)
    if any(trials.start(gang, without=other) is not None for other in others):
        return ("the end of the reservation that the room is kept by",)
    return ()


def _largest(gang: Gang, trials: Trials) -> Iterator[str]:
    """For a gang that never fits: how much of each role would, with nothing else running."""
    for index, role in enumerate(gang.roles):
        most = most_that_fit(gang, index, Columns.empty(trials.snapshot.columns.layout))
        if most:
            yield f"{most} instead of {role.replicas} replicas of role {role.name} fit once other jobs have ended"


def _summary(job: Job) -> str:
    return _SUMMARIES.get(job.state, _ended)(job)


def _diagnosing(job: Job) -> str:
    attempt = job.attempt
    told = f"its nodes {_nodes(attempt)} are being diagnosed"
    if not attempt.replaced:
        return told
    change = attempt.replaced[-1].change
    went = ", ".join(change.names.get(node, node) for node in change.left)
    return f"{told}, in round {attempt.round} of at most {REPLACEMENTS_MAX + 1}: {went} left after the last one"


def _starting(job: Job) -> str:
    attempt = job.attempt
    return f"{_count(attempt, 'Running')} of {len(attempt.replicas)} replicas run, on {_nodes(attempt)}"


def _running(job: Job) -> str:
    attempt = job.attempt
    since = rfc3339(attempt.started_at) if attempt.started_at else "a moment ago"
    return f"all {len(attempt.replicas)} replicas run since {since}, on {_nodes(attempt)}"


def _stopping(job: Job) -> str:
    replicas = job.attempt.replicas.values()
    return f"is being stopped; {sum(bool(replica.exit) for replica in replicas)} of {len(replicas)} replicas have ended"


def _deciding(job: Job) -> str:
    attempt = job.attempt
    end = (attempt.ended.message or attempt.ended.reason) if attempt.ended else "for an unknown reason"
    return f"attempt {attempt.number} ended: {end}; the watchdog has yet to decide about a retry"


def _retrying(job: Job) -> str:
    decision = job.attempt.decision
    due = decision.not_before if decision else None
    why = f"; attempt {job.attempt.number} ended: {decision.reason}, {decision.budget_left} left" if decision else ""
    return f"attempt {job.attempt.number + 1} is queued {'at ' + rfc3339(due) if due else 'at once'}{why}"


def _ended(job: Job) -> str:
    decision = job.attempt.decision
    tried = f"; {len(job.attempts)} attempts were made" if len(job.attempts) > 1 else ""
    why = f"; no further attempt: {decision.reason}" if decision and not decision.retry and decision.reason else ""
    when = f"ended at {rfc3339(job.ended_at)}" if job.ended_at else "has ended"
    return when + (f" ({job.message})" if job.message else "") + tried + why


_SUMMARIES: Final[Mapping[JobState, Callable[[Job], str]]] = {
    JobState.QUEUED: lambda _job: "waits to be looked at",
    JobState.DIAGNOSING: _diagnosing,
    JobState.STARTING: _starting,
    JobState.RUNNING: _running,
    JobState.STOPPING: _stopping,
    JobState.DECIDING: _deciding,
    JobState.RETRYING: _retrying,
}


def _count(attempt: Attempt, state: str) -> int:
    return sum(replica.state == state for replica in attempt.replicas.values())


def _nodes(attempt: Attempt) -> str:
    return ", ".join(sorted({replica.where for replica in attempt.replicas.values()}))
