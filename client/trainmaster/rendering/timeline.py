"""A job's history: one line an event, with the time, the time since submission, and a sentence.

The sentences are used by `events`, and by following, which shows each as it happens. An event that this version does
not know is shown by its name: a platform may be newer than its clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from rich.table import Table

from trainmaster.decoding import Fields
from trainmaster.documents import BurnIn, JobEvent, Progress, ReplicaExit
from trainmaster.rendering.amounts import exit_text, size
from trainmaster.rendering.burn_in import burn_in_sentence
from trainmaster.rendering.moments import clock_time, took
from trainmaster.rendering.progress import told
from trainmaster.rendering.style import STATE_STYLES, printable, table, text

MOST_LISTED: Final = 6

_WIDTHS: Final = (12, 8, 2, 16, 0)
HEADERS: Final = ("TIME", "SINCE START", "ATTEMPT", "EVENT", "WHAT HAPPENED")


def timeline(events: Iterable[JobEvent]) -> Table:
    """All events under each other."""
    told = tuple(events)
    start = told[0].time if told else None
    return table(HEADERS, (row(event, start) for event in told))


def row(event: JobEvent, start: datetime | None) -> tuple[object, ...]:
    """One event as the cells of a line."""
    style = STATE_STYLES.get(event.final_state or "", "")
    since = "+" + took(start, event.time)
    return clock_time(event.time), since, event.attempt, text(event.name, style), sentence(event)


def line(event: JobEvent, start: datetime | None) -> str:
    """One event as a line of its own, for following: columns of fixed widths."""
    cells = (printable(getattr(cell, "plain", cell)) for cell in row(event, start))
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def sentence(event: JobEvent) -> str:
    """What happened, in words."""
    tell = _SENTENCES.get(event.name)
    return tell(event.data) if tell else ""


def _submitted(data: Fields) -> str:
    roles = (
        f"{role.integer('replicas', 1)} x {role.text('name', 'worker')} of {role.text('instanceType', '?')}"
        for role in data.fields("spec").each("roles")
    )
    return f"{data.text('name')}: {_listed(roles)}, priority {data.integer('priority', 5)}"


def _queued(data: Fields) -> str:
    return f"waits for a place again ({data.text('reason', 'retry')})"


def _placed(data: Fields) -> str:
    places = (f"{role.text('role')} on {_nodes(role)}" for role in data.each("roles"))
    return _listed(places) + ("; the nodes are checked first" if data.flag("diagnosing") else "")


def _nodes(role: Fields) -> str:
    names = role.texts("nodeNames") or role.texts("nodes")
    counts = Counter(int(index) for index in role.texts("nodeOf"))
    return _listed(f"{name} ({counts[index]})" if counts[index] > 1 else name for index, name in enumerate(names))


def _placement_changed(data: Fields) -> str:
    names = data.fields("names").document
    went, came = (_listed(str(names.get(node, node)) for node in data.texts(key)) for key in ("left", "taken"))
    return f"{came} instead of {went}; the new nodes are checked: {data.text('reason')}"


def _replicas_changed(data: Fields) -> str:
    changes = tuple(data.each("changes"))
    started = [_replica(change) for change in changes if change.text("state") == "started"]
    exited = [f"{_replica(change)} {_exit(change)}" for change in changes if change.text("state") == "exited"]
    told = [f"{_listed(started)} started"] if started else []
    return "; ".join(told + ([_listed(exited)] if exited else []))


def _exit(change: Fields) -> str:
    return f"exited {exit_text(ReplicaExit.of(change.fields('exit')))}"


def _attempt_ended(data: Fields) -> str:
    first = data.fields("firstFailure")
    culprit = f"{_replica(first)} {_exit(data)} first" if first.document else ""
    return "; ".join(filter(None, (data.text("reason"), data.text("message") or culprit)))


def _retry_decided(data: Fields) -> str:
    retry = data.flag("retry")
    left = f", {data.integer('budgetLeft')} left" if retry else ""
    when = f", not before {clock_time(data.time('notBefore'))}" if data.time("notBefore") else ""
    line = f": {data.text('line')}" if data.text("line") else ""
    return f"{'retry' if retry else 'no retry'}: {data.text('reason')}{line}{left}{when}"


def _stop_requested(data: Fields) -> str:
    return ": ".join(filter(None, (f"by {data.text('by', 'somebody')}", data.text("reason"))))


def _diagnosis_finished(data: Fields) -> str:
    if data.flag("passed"):
        passed = "no node failed" if data.texts("untestedNodes") else "all nodes passed"
        return "; ".join(filter(None, (passed, data.text("message"))))
    return f"failed: {data.text('message') or _listed(data.texts('badNodes'))}"


def _diagnosis_requested(data: Fields) -> str:
    names = data.fields("names").document
    return f"of {_listed(str(names.get(node, node)) for node in data.texts('nodes'))}"


def _incident(data: Fields) -> str:
    replica = data.fields("replica")
    stops = "; the attempt is stopped" if data.text("action") == "stop" else ""
    where = f" in {_replica(replica)}" if replica.document else ""
    tried = " (only being tried)" if data.text("mode") == "shadow" else ""
    return f"rule {data.text('rule')}{tried} matched{where}: {data.text('line')}{stops}"


def _evidence(data: Fields) -> str:
    problems = f" (not seen: {_listed(data.texts('problems'))})" if data.texts("problems") else ""
    return f"of {data.text('rule')}: {data.text('summary')}{problems}"


def _logs_removed(data: Fields) -> str:
    why = {"age": "they were old", "user-size": "the owner had too many", "project-size": "the project had too many"}
    reason = data.text("reason")
    return f"{size(data.integer('bytes'))} of logs were removed: {why.get(reason, reason)}"


def _failed(data: Fields) -> str:
    return data.text("message") or data.text("reason")


def _replica(fields: Fields) -> str:
    return f"{fields.text('role')}-{fields.integer('index')}"


def _listed(items: Iterable[str]) -> str:
    """The first few, and how many more there are: a gang may have thousands of replicas."""
    all_items = list(items)
    more = len(all_items) - MOST_LISTED
    return ", ".join(all_items[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


_SENTENCES: Final[Mapping[str, Callable[[Fields], str]]] = {
    "submitted": _submitted,
    "queued": _queued,
    "placed": _placed,
    "placement.changed": _placement_changed,
    "admitted": lambda _: "the placed nodes passed their checks",
    "started": lambda _: "every replica runs",
    "stop.requested": _stop_requested,
    "preemption.requested": lambda data: data.text("message"),
    "attempt.ended": _attempt_ended,
    "retry.decided": _retry_decided,
    "succeeded": lambda data: data.text("message"),
    "failed": _failed,
    "stopped": lambda data: data.text("message"),
    "deleted": lambda data: f"by {data.text('by', 'somebody')}; the name is free",
    "replicas.changed": _replicas_changed,
    "diagnosis.requested": _diagnosis_requested,
    "diagnosis.finished": _diagnosis_finished,
    "code.resolved": lambda data: f"commit {data.text('revision')[:12]} of {data.text('uri')}",
    "logs.removed": _logs_removed,
    "incident.raised": _incident,
    "progress.reported": lambda data: told(Progress.of(data)),
    "evidence.collected": _evidence,
    "steps.measured": lambda data: f"of {len(tuple(data.each('ranks')))} ranks",
    "burnin.judged": lambda data: burn_in_sentence(BurnIn.of(data)),
}
