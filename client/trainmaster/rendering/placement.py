"""The placement table: where each replica of an attempt was put, and what became of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.documents import Attempt, Replica
from trainmaster.rendering.amounts import exit_text
from trainmaster.rendering.moments import clock_time, took
from trainmaster.rendering.style import state, table

MOST_ROWS: Final = 64

HEADERS: Final = ("REPLICA", "POOL", "NODE", "DEVICES", "STATE", "STARTED", "TOOK", "EXIT")


def placement(attempt: Attempt) -> RenderableType:
    """One line a replica; what passes the limit is summed up by state, failed replicas are always shown."""
    if not attempt.replicas:
        return Text("not placed yet" if attempt.ended_at is None else "never placed")
    urgent_first = sorted(attempt.replicas, key=lambda replica: replica.state != "Failed")
    shown = set(urgent_first[:MOST_ROWS])
    rows = table(HEADERS, (_row(replica) for replica in attempt.replicas if replica in shown))
    hidden = Counter(replica.state for replica in urgent_first[MOST_ROWS:])
    if not hidden:
        return rows
    counts = ", ".join(f"{count} {name}" for name, count in sorted(hidden.items()))
    return Group(rows, Text(f"and {hidden.total()} more: {counts}", style="dim"))


def _row(replica: Replica) -> tuple[object, ...]:
    return (
        replica.name,
        replica.pool,
        replica.node,
        ", ".join(replica.devices),
        state(replica.state),
        clock_time(replica.started_at),
        took(replica.started_at, replica.ended_at),
        exit_text(replica.exit) if replica.exit else "",
    )
