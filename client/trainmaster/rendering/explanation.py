"""`explain`: what a job waits for, in numbers, and what would help."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.documents import Blocker, Explanation
from trainmaster.rendering.amounts import resource_amount
from trainmaster.rendering.style import state, table, text, titled

HEADERS = ("ROLE", "RESOURCE", "NEEDED", "FREE", "TOTAL")


def explanation(answer: Explanation) -> RenderableType:
    """The summary, a line for each thing that is short, and single changes that would help."""
    place = f", number {answer.position} in the queue" if answer.position is not None else ""
    parts: list[RenderableType] = [Text.assemble(state(answer.state), place, ": ", text(answer.summary))]
    if answer.blockers:
        parts += [Text(), table(HEADERS, (_row(blocker) for blocker in answer.blockers))]
        parts += [text(blocker.detail, "dim") for blocker in answer.blockers if blocker.detail]
    if answer.suggestions:
        parts.append(titled("What would help", Group(*(text(f"- {line}") for line in answer.suggestions))))
    return Group(*parts)


def _row(blocker: Blocker) -> tuple[object, ...]:
    amounts = (blocker.needed, blocker.available, blocker.total)
    return blocker.role, blocker.resource, *(resource_amount(blocker.resource, amount) for amount in amounts)
