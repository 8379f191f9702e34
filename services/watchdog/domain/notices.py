"""What is told of an event: a title, a sentence, and for programs the facts."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.watchdog.domain.notifications import Topic
from services.watchdog.domain.silence import SILENCE_RULES
from shared import events as ev
from shared.events import IncidentRaised, OutageSuspected, Time
from shared.jobs import Job, Recorded

TEXT_MAX: Final = 1500
_ENDS: Final[dict[type[ev.Payload], Topic]] = {
    ev.Succeeded: "succeeded",
    ev.Failed: "failed",
    ev.Stopped: "stopped",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class JobFacts(_Part):
    """Which job."""

    id: str
    name: str
    owner: str
    project: str
    attempt: int


class IncidentFacts(_Part):
    """What was noticed."""

    rule: str
    failure_class: str | None = Field(None, alias="class")
    severity: str | None = None
    replica: str | None = None
    action: str
    line: str


class OutageFacts(_Part):
    """What several jobs share."""

    rule: str
    place_kind: str
    place: str
    jobs: tuple[str, ...]


class Notice(_Part):
    """One thing that is told; `id` is that of the event, and `once` tells a repeat of the same matter."""

    id: str
    once: str
    type: Topic
    time: Time
    title: str
    text: str
    job: JobFacts | None = None
    incident: IncidentFacts | None = None
    outage: OutageFacts | None = None


def notice_of(recorded: Recorded, job: Job | None) -> Notice | None:
    """What is to be told of an event of this job, or of the platform; None where there is nothing."""
    match recorded.event.data:
        case OutageSuspected() as outage:
            return _of_outage(recorded, outage)
        case IncidentRaised() as incident if job is not None and incident.mode == "active":
            return _of_incident(recorded, incident, job)
        case ev.Succeeded() | ev.Failed() | ev.Stopped() as end if job is not None:
            return _of_end(recorded, end, job)
    return None


def _of_incident(recorded: Recorded, incident: IncidentRaised, job: Job) -> Notice:
    """One notice a rule and attempt: a gang of hundreds may say the same."""
    facts = _facts(recorded, job)
    replica = f"{incident.replica.role}-{incident.replica.index}" if incident.replica else None
    stops = " The attempt is ended." if incident.action == "stop" else ""
    advice = incident.advice
    return Notice(
        id=recorded.event.id,
        once=f"{job.id}/{facts.attempt}/{incident.rule}" + _silence(incident),
        type="hang" if incident.rule in SILENCE_RULES else "incident",
        time=incident.at or recorded.event.time,
        title=f"{job.name}, attempt {facts.attempt}: {incident.rule}" + (f" in {replica}" if replica else ""),
        text=_cut(" ".join(filter(None, (f"{incident.line}{stops}", advice)))),
        job=facts,
        incident=IncidentFacts(
            rule=incident.rule,
            failure_class=incident.failure_class,
            severity=incident.severity,
            replica=replica,
            action=incident.action,
            line=incident.line,
        ),
    )


def _silence(incident: IncidentRaised) -> str:
    """Every silence is a matter of its own."""
    return f"/{incident.line}" if incident.rule in SILENCE_RULES else ""


def _of_end(recorded: Recorded, end: ev.Succeeded | ev.Failed | ev.Stopped, job: Job) -> Notice:
    topic = _ENDS[type(end)]
    reason = f"{end.reason}: " if isinstance(end, ev.Failed) and end.reason else ""
    decision = job.attempt.decision
    why = f" {decision.reason}" if decision is not None and topic == "failed" else ""
    return Notice(
        id=recorded.event.id,
        once=f"{job.id}/end",
        type=topic,
        time=recorded.event.time,
        title=f"{job.name} {topic if topic != 'stopped' else 'was stopped'}",
        text=_cut(f"{reason}{end.message}{why}".strip() or f"after {job.attempt.number} attempts"),
        job=_facts(recorded, job),
    )


def _of_outage(recorded: Recorded, outage: OutageSuspected) -> Notice:
    shared = f"{outage.place_kind} {outage.place}"
    return Notice(
        id=recorded.event.id,
        once=recorded.event.id,
        type="outage",
        time=outage.at,
        title=f"{outage.rule} in {len(outage.jobs)} jobs that share {shared}",
        text=_cut(f"{outage.line} Jobs: {', '.join(outage.jobs)}"),
        outage=OutageFacts(rule=outage.rule, place_kind=outage.place_kind, place=outage.place, jobs=outage.jobs),
    )


def _facts(recorded: Recorded, job: Job) -> JobFacts:
    return JobFacts(
        id=job.id,
        name=job.name,
        owner=job.submitted.owner_name,
        project=job.project,
        attempt=recorded.event.attempt or job.attempt.number,
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
