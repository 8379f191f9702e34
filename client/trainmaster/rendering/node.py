"""`describe node`: a node on a page: state and why, what it has and has free, who is on it, what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.decoding import Fields
from trainmaster.documents import JobEvent
from trainmaster.rendering.moments import date_time
from trainmaster.rendering.style import state, table, text, titled

JOB_HEADERS = ("JOB", "ID", "PROJECT", "REPLICAS")
AMOUNT_HEADERS = ("", "CPU", "MEMORY", "GPUS")
EVENT_HEADERS = ("WHEN", "WHAT", "BY", "WHY")


def node_page(node: Fields, history: Sequence[JobEvent] = (), ledger: Fields | None = None) -> RenderableType:
    """The node; `history` are the events about it, `ledger` what is known of its health, which only admins get."""
    metadata, spec, status = node.fields("metadata"), node.fields("spec"), node.fields("status")
    labels = metadata.fields("labels").document
    parts: list[RenderableType] = [
        table(("NODE", "ID", "CLUSTER", "POOLS"), [_head(metadata, spec, status)]),
        _state(status),
        titled("Amounts", table(AMOUNT_HEADERS, [_amounts("has", spec), _amounts("free", status.fields("free"))])),
        titled("Labels", text(", ".join(f"{key}={value}" for key, value in labels.items()))),
        titled("On it", _jobs(status)),
    ]
    if ledger:
        parts.append(titled("Health", Group(*(text(line) for line in _health(ledger)))))
    if history:
        parts.append(titled("History", table(EVENT_HEADERS, _events(history))))
    return Group(*parts)


def _head(metadata: Fields, spec: Fields, status: Fields) -> tuple[object, ...]:
    return metadata.text("name"), metadata.text("id"), spec.text("cluster"), ", ".join(status.texts("pools"))


def _state(status: Fields) -> Text:
    line = Text.assemble("state: ", state(status.text("state")))
    if status.text("reason"):
        since = f" since {date_time(status.time('since'))}" if status.time("since") else ""
        line.append(f"{since}, {text(status.text('by')).plain}: {text(status.text('reason')).plain}")
    wanted = status.fields("returning")
    if wanted.document:
        line.append(
            f"; {text(wanted.text('by')).plain} wants it back ({text(wanted.text('reason')).plain}): tested first"
        )
    if status.flag("quarantineWithheld"):
        line.append("; it would be quarantined if too much of a pool were not missing then", style="yellow")
    return line


def _amounts(name: str, amounts: Fields) -> tuple[object, ...]:
    return name, amounts.text("cpu"), amounts.text("memory"), amounts.integer("gpus")


def _jobs(status: Fields) -> RenderableType:
    rows = [
        (job.text("name"), job.text("job"), job.text("project"), job.integer("replicas")) for job in status.each("jobs")
    ]
    others = status.integer("otherReplicas")
    rest = text(f"{others} replicas of jobs that you may not see") if others else None
    if not rows:
        return rest or text("nothing")
    return Group(table(JOB_HEADERS, rows), *([rest] if rest else []))


def _health(ledger: Fields) -> Iterator[str]:
    yield f"{_standing(ledger)}bad with a probability of {_percent(ledger)}; {_pass(ledger)}"
    last = ledger.fields("lastDiagnosis")
    if last.document:
        why = "; ".join((*last.texts("problems"), *last.texts("doubts")))
        told = f"last diagnosis {last.text('id')} at {date_time(last.time('at'))}: {last.text('verdict')}"
        yield f"{told}, {why}" if why else told
    yield from (f"{part.text('part')}: bad with a probability of {_percent(part)}" for part in ledger.each("parts"))


def _standing(ledger: Fields) -> str:
    """What the scheduler was told of the node: a bad one is taken out, a suspect one comes last."""
    if ledger.text("health") == "bad":
        return "found bad, returns by passing; "
    is_suspect = ledger.text("health") == "suspect" or ledger.flag("suspect")
    return "suspect, other jobs get it last; " if is_suspect else ""


def _percent(fields: Fields) -> str:
    return f"{100 * fields.number('suspicion'):.2g} %"


def _pass(ledger: Fields) -> str:
    until = ledger.time("passUntil")
    return f"its pass holds until {date_time(until)}" if until else "it has no pass that holds"


def _events(history: Sequence[JobEvent]) -> Iterator[tuple[object, ...]]:
    for event in history:
        data = event.data
        what = next(filter(None, map(data.text, ("state", "wish", "health", "verdict", "name"))), "")
        more = " (quarantine withheld)" if data.flag("withheld") else ""
        more += " (forced)" if data.flag("forced") else ""
        more += " (faults were pretended)" if data.texts("injected") else ""
        told = event.name.removeprefix("node.") + (f": {what}" if what else "") + more
        yield date_time(event.time), told, data.text("by"), _reason(data)


def _reason(data: Fields) -> str:
    return data.text("reason") or "; ".join((*data.texts("problems"), *data.texts("doubts")))
