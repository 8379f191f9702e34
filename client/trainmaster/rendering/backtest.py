"""`rules test`: the lines on which rules hold, the root cause, and what would be decided."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.backtests import RuleMatch
from trainmaster.decoding import Document, Fields
from trainmaster.rendering.style import table, text

HEADERS = ("REPLICA", "LINE", "RULE", "CLASS", "TEXT")
TEXT_CHARS = 100


def backtest(document: Document) -> RenderableType:
    """A line for each match, then the verdict."""
    fields = Fields.of(document)
    matches = [RuleMatch.of(each) for each in fields.each("matches")]
    parts: list[RenderableType] = []
    if matches:
        parts += [table(HEADERS, (_row(match) for match in matches)), Text()]
    if fields.integer("more"):
        parts.append(text(f"and {fields.integer('more')} more", "dim"))
    parts += [text(line) for line in _verdict(fields, found=bool(matches))]
    return Group(*parts)


def _row(match: RuleMatch) -> tuple[object, ...]:
    rule = match.rule if match.wins else f"({match.rule})"
    return match.replica, match.number, rule, match.failure_class, match.line[:TEXT_CHARS]


def _verdict(fields: Fields, *, found: bool) -> list[str]:
    cause = fields.fields("cause")
    lines = [] if found else ["no rule holds on any line"]
    if cause.document:
        lines.append(f"root cause: {cause.text('rule')} ({cause.text('class')})")
    where = ", without the node" if fields.flag("excludeNodes") else ""
    lines.append(f"decision: {'another attempt' + where if fields.flag('retry') else 'no further attempt'}")
    return [*lines, fields.text("reason")]
