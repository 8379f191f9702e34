"""Where a job stands, in a sentence and in numbers: the answer of `explain` for every state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.explain import Explanation, Verdict, explain
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.plan import Snapshot
from services.scheduler.domain.quotas import is_beyond_quota, quota_blockers
from shared.clock import rfc3339
from shared.jobs import Attempt, Job, JobState


@dataclass(frozen=True, slots=True)
class Standing:
    """What is told of one job; `position` counts from 1 among the gangs that wait for the same pools."""

    job: str
    state: JobState
    summary: str
    position: int | None = None
    blockers: tuple[Blocker, ...] = ()
    suggestions: tuple[str, ...] = ()


def standing_of(job: Job, snapshot: Snapshot, alternatives: Mapping[str, Collection[str]]) -> Standing:
    """What the job waits for, or what it is doing."""
    gang = snapshot.queue.get(job.id)
    if job.state is JobState.QUEUED and gang is not None:
        return _waiting(job, gang, snapshot, alternatives)
    return Standing(job.id, job.state, _summary(job))


def place_in_queue(gang: Gang, snapshot: Snapshot) -> tuple[int, int]:
    """The gang's place among those that wait for the same pools, from 1, and how many these are."""
    pools = {role.pool for role in gang.roles}
    rivals = [other.job for other in snapshot.gangs if pools & {role.pool for role in other.roles}]
    return rivals.index(gang.job) + 1, len(rivals)


def _waiting(job: Job, gang: Gang, snapshot: Snapshot, alternatives: Mapping[str, Collection[str]]) -> Standing:
    beyond = quota_blockers(gang, snapshot.quotas, snapshot.usage.used)
    answer = _held_back(beyond) if beyond else explain(gang, snapshot.columns, alternatives)
    position, rivals = place_in_queue(gang, snapshot)
    queue = f"place {position} of {rivals} in the queue"
    summary = f"{queue}: {answer.summary}"
    if answer.verdict is Verdict.NEVER:
        summary = answer.summary
    return Standing(job.id, job.state, summary, position, answer.blockers, answer.suggestions)


def _held_back(blockers: tuple[Blocker, ...]) -> Explanation:
    """What is told of a gang that its project's quota holds back, whatever room there is."""
    never = is_beyond_quota(blockers)
    lead = "asks for more than the quota of its project" if never else "is held back by the quota of its project"
    verdict = Verdict.NEVER if never else Verdict.WAITS
    suggestion = (
        "fewer replicas, or a larger quota" if never else "the end of another job of the project, or a larger quota"
    )
    return Explanation(verdict, f"{lead}: {blockers[0].detail}", blockers, (suggestion,))


def _summary(job: Job) -> str:
    return _SUMMARIES.get(job.state, _ended)(job)


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
    JobState.DIAGNOSING: lambda job: f"its nodes {_nodes(job.attempt)} are being diagnosed",
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
