"""`describe`: a job on one page: what it is, what it asked for, and what became of each attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainmaster.decoding import Fields
from trainmaster.documents import Attempt, Decision, Diagnosis, Evidence, Incident, Job, Replaced
from trainmaster.rendering.amounts import money
from trainmaster.rendering.burn_in import burn_in_lines
from trainmaster.rendering.measurements import wrong_measurements
from trainmaster.rendering.moments import date_time, took
from trainmaster.rendering.placement import placement
from trainmaster.rendering.progress import told
from trainmaster.rendering.style import state, table, text, titled
from trainmaster.usage import Bill, Used

MOST_INCIDENTS: Final = 10
MOST_BAD_NODES: Final = 10
MOST_MEASURED: Final = 40


def description(
    job: Job, now: datetime, bill: Bill | None = None, reports: Mapping[int, Fields] | None = None
) -> RenderableType:
    """Everything about the job that fits on a page; without its cost where there is no bill.

    `reports` are those of the diagnoses of attempts, as far as they may be read.
    """
    parts: list[RenderableType] = [_facts(job, now, bill), titled("Roles", _roles(job.spec))]
    if mounts := tuple(job.spec.each("mounts")):
        parts.append(titled("Mounts", _mounts(mounts)))
    parts += [
        titled(_attempt_title(attempt, now), _attempt(attempt, (reports or {}).get(attempt.number)))
        for attempt in job.attempts
    ]
    return Group(*parts)


def _facts(job: Job, now: datetime, bill: Bill | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    for label, value in (*_labelled(job, now), *_cost(bill)):
        grid.add_row(Text(label, style="dim"), value if isinstance(value, Text) else text(value))
    return grid


def _labelled(job: Job, now: datetime) -> Iterator[tuple[str, object]]:
    yield "Name", text(job.name, "bold")
    yield "Id", job.id
    yield "State", Text.assemble(state(job.state), _why(job))
    yield "Owner", job.owner
    yield "Project", job.project
    if job.labels:
        yield "Labels", ", ".join(job.labels)
    yield "Image", _image(job.spec)
    if job.spec.document.get("code"):
        yield "Code", _code(job.spec.fields("code"))
    yield "Priority", job.spec.integer("priority", 5)
    yield "Submitted", date_time(job.submitted_at)
    if job.started_at:
        yield "Started", f"{date_time(job.started_at)}, after {took(job.submitted_at, job.started_at)}"
        yield "Ran", took(job.started_at, job.ended_at or now)
    if job.ended_at:
        yield "Ended", date_time(job.ended_at)


def _cost(bill: Bill | None) -> Iterator[tuple[str, object]]:
    if bill is not None:
        accrued = bill.accrued or Used()
        yield "Cost", money(bill.total.amount_micros + accrued.amount_micros) + (" so far" if accrued != Used() else "")


def _why(job: Job) -> str:
    """Reason and message behind the state, where they say more than the state does."""
    told = [part for part in (job.reason, job.message) if part and part.lower() != job.state.lower()]
    return f"  ({': '.join(text(part).plain for part in told)})" if told else ""


def _image(spec: Fields) -> str:
    image = spec.document.get("image")
    if isinstance(image, str):
        return image
    chosen = spec.fields("image")
    return f"{chosen.text('ref')} ({chosen.text('source')})"


def _code(code: Fields) -> str:
    if code.document.get("inline"):
        return f"inline: {', '.join(code.fields('inline').document)}"
    where = code.text("source") or code.text("upload")
    return f"{where} at {code.text('revision')}" if code.text("revision") else where


def _roles(spec: Fields) -> Table:
    headers = ("ROLE", "REPLICAS", "POOL", "INSTANCE TYPE", "COMMAND")
    return table(headers, (_role(role) for role in spec.each("roles")))


def _role(role: Fields) -> tuple[object, ...]:
    pool = role.fields("pool")
    pool_name = pool.text("name") or pool.text("type", "public")
    command = role.document.get("command")
    shown = command.strip() if isinstance(command, str) else command
    return role.text("name", "worker"), role.integer("replicas", 1), pool_name, role.text("instanceType"), shown


def _mounts(mounts: tuple[Fields, ...]) -> Table:
    headers = ("PATH", "TYPE", "SOURCE", "SUB PATH", "ACCESS")
    return table(headers, (_mount(mount) for mount in mounts))


def _mount(mount: Fields) -> tuple[object, ...]:
    access = "read only" if mount.flag("readOnly") else "read and write"
    return mount.text("mountPath"), mount.text("type"), mount.text("source"), mount.text("subPath"), access


def _attempt_title(attempt: Attempt, now: datetime) -> str:
    told = [f"Attempt {attempt.number}"]
    if attempt.cluster:
        told.append(f"cluster {text(attempt.cluster).plain}")
    if attempt.placed_at:
        told.append(f"queued {took(attempt.queued_at, attempt.placed_at)}")
    if attempt.started_at:
        told.append(f"ran {took(attempt.started_at, attempt.ended_at or now)}")
    return ", ".join(told)


def _attempt(attempt: Attempt, report: Fields | None) -> Group:
    parts: list[RenderableType] = [placement(attempt)]
    if attempt.code_revision:
        parts.append(text(f"code: commit {attempt.code_revision}"))
    parts += [text(line) for line in _replaced(attempt.replaced)]
    if attempt.diagnosis:
        parts += [text(line) for line in _diagnosis(attempt.diagnosis)]
    if attempt.progress:
        so_far = told(attempt.progress, ended=attempt.ended_at is not None)
        parts.append(text(f"progress at {date_time(attempt.progress.at)}: {so_far}"))
    if attempt.burn_in:
        parts += [text(line) for line in burn_in_lines(attempt.burn_in)]
    if attempt.end_reason:
        parts.append(text(": ".join(filter(None, (f"ended: {attempt.end_reason}", attempt.message)))))
    parts += [text(line) for line in _incidents(attempt.incidents)]
    parts += [text(line) for line in _evidence(attempt.evidence)]
    if attempt.decision:
        parts += [text(line) for line in _decision(attempt.decision)]
    if report:
        parts += wrong_measurements(report, MOST_MEASURED)
    return Group(*parts)


def _replaced(replaced: tuple[Replaced, ...]) -> Iterator[str]:
    for each in replaced:
        went, came = (", ".join(names[:MOST_BAD_NODES]) for names in (each.left, each.taken))
        yield f"replaced at {date_time(each.at)}: {went} by {came}, after the diagnosis: {each.reason}"


def _diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.finished_at is None:
        yield f"diagnosis: asked for at {date_time(diagnosis.requested_at)}, not finished"
        return
    lasted = f"{date_time(diagnosis.finished_at)}, after {took(diagnosis.requested_at, diagnosis.finished_at)}"
    if diagnosis.passed:
        whole = f"all nodes passed ({diagnosis.node_count})"
        part = f"no node failed, but {len(diagnosis.untested)} of {diagnosis.node_count} were not tested,"
        yield f"diagnosis: {part if diagnosis.untested else whole} at {lasted}"
        yield from _untested(diagnosis)
        yield from _doubts(diagnosis)
        return
    yield f"diagnosis: failed at {lasted}: {', '.join(diagnosis.bad_nodes[:MOST_BAD_NODES])}"
    for node in diagnosis.bad_nodes[:MOST_BAD_NODES]:
        yield from (f"  {node}: {problem}" for problem in diagnosis.problems.get(node, ()))
    if len(diagnosis.bad_nodes) > MOST_BAD_NODES:
        yield f"  and {len(diagnosis.bad_nodes) - MOST_BAD_NODES} more bad nodes"
    yield from _untested(diagnosis)


def _untested(diagnosis: Diagnosis) -> Iterator[str]:
    yield from (f"  {node}, not tested: {why}" for node, why in list(diagnosis.untested.items())[:MOST_BAD_NODES])
    if len(diagnosis.untested) > MOST_BAD_NODES:
        yield f"  and {len(diagnosis.untested) - MOST_BAD_NODES} more that were not tested"


def _doubts(diagnosis: Diagnosis) -> Iterator[str]:
    doubtful = [(node, doubts) for node, doubts in diagnosis.doubts.items() if doubts]
    for node, doubts in doubtful[:MOST_BAD_NODES]:
        yield from (f"  {node}, doubtful: {doubt}" for doubt in doubts)
    if len(doubtful) > MOST_BAD_NODES:
        yield f"  and {len(doubtful) - MOST_BAD_NODES} more doubtful nodes"


def _incidents(incidents: tuple[Incident, ...]) -> Iterator[str]:
    for incident in incidents[:MOST_INCIDENTS]:
        where = f" in {incident.replica}" if incident.replica else ""
        stops = ", so the attempt is stopped" if incident.action == "stop" else ""
        tried = " (only being tried)" if incident.is_tried else ""
        yield f"noticed at {date_time(incident.at)}{where}, {incident.rule}{tried}{stops}: {incident.line}"
    if len(incidents) > MOST_INCIDENTS:
        yield f"and {len(incidents) - MOST_INCIDENTS} more incidents"


def _evidence(evidence: tuple[Evidence, ...]) -> Iterator[str]:
    for each in evidence:
        yield f"evidence of {each.rule}, taken at {date_time(each.at)}: {each.summary}"
        yield from (f"  not seen: {problem}" for problem in each.problems)


def _decision(decision: Decision) -> Iterator[str]:
    when = f", not before {date_time(decision.not_before)}" if decision.not_before else ""
    verdict = f"another attempt{when}" if decision.retry else "no further attempt"
    left = f" ({decision.budget_left} more possible)" if decision.retry else ""
    yield f"decided: {verdict}{left}, {decision.reason}"
    if decision.line:
        yield f"  {decision.replica}, {decision.rule}: {decision.line}"
    yield from (f"  also: {other}" for other in decision.others)
