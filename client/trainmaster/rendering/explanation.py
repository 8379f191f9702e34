"""`explain` and `plan`: what a job waits for, in numbers, who holds it, what would start it, why it is where it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.documents import Blocker, Change, Explanation, Holder, Plan
from trainmaster.rendering.amounts import resource_amount
from trainmaster.rendering.moments import date_time
from trainmaster.rendering.style import state, table, text, titled

HEADERS = ("ROLE", "RESOURCE", "NEEDED", "FREE", "TOTAL")
HOLDER_HEADERS = ("HELD BY", "RESOURCE", "POOL", "AMOUNT", "UNTIL AT THE LATEST")
PLACE_HEADERS = ("ROLE", "POOL", "NODE", "REPLICAS")


def explanation(answer: Explanation) -> RenderableType:
    """The summary, what is short, who holds it, and changes that would help; or the story of an ended job."""
    if answer.story:
        return Group(*(text(sentence) for sentence in answer.story))
    return Group(Text.assemble(state(answer.state), _place(answer), ": ", text(answer.summary)), *reasons(answer))


def _place(answer: Explanation) -> str:
    """The place in the queue, where the summary does not begin with it."""
    if answer.position is None or answer.summary.startswith(f"place {answer.position} of "):
        return ""
    return f", number {answer.position} in the queue"


def reasons(answer: Explanation) -> Iterator[RenderableType]:
    """All but the summary."""
    yield from (text(f"warning: {warning}", "yellow") for warning in answer.warnings)
    if answer.why_there:
        yield text(f"placed {answer.why_there}")
    if answer.blockers:
        yield Text()
        yield table(HEADERS, (_row(blocker) for blocker in answer.blockers))
        yield from (text(blocker.detail, "dim") for blocker in answer.blockers if blocker.detail)
    if answer.holders or answer.held_by_others:
        yield Text()
        yield table(HOLDER_HEADERS, map(_holder, (*answer.holders, *answer.held_by_others)))
    if answer.expected_start_at:
        yield text(
            f"starts by {date_time(answer.expected_start_at)} if nothing is submitted before it and no node fails"
        )
    if answer.suggestions:
        yield titled("What would help", _list(_help(answer)))


def plan_page(plan: Plan) -> RenderableType:
    """Whether the job would start now and where, what an hour of it costs, or what it would wait for."""
    price = f", {plan.price_per_hour} an hour" if plan.price_per_hour else ""
    where = f" for cluster {plan.cluster}" if plan.cluster else ""
    parts = [Text.assemble("valid", text(where), "; ", _verdict(plan), text(price) if price else "")]
    parts += [text(f"its nodes are tested first: {plan.diagnosis}")] if plan.diagnosis else []
    if plan.placement:
        rows = ((role, pool, node, count) for role, pool, nodes in plan.placement for node, count in nodes)
        return Group(*parts, *reasons(plan.explanation), Text(), table(PLACE_HEADERS, rows), *_differences(plan))
    return Group(*parts, text(plan.explanation.summary), *reasons(plan.explanation), *_differences(plan))


def _verdict(plan: Plan) -> Text:
    if plan.starts:
        return text("would start now", "bold green")
    return text("would never start as things are" if plan.explanation.never_fits else "would wait", "yellow")


def _differences(plan: Plan) -> Iterator[RenderableType]:
    if plan.differences:
        yield titled("What differs between one machine and Kubernetes", _list(plan.differences))


def _list(lines: Iterable[str]) -> Group:
    return Group(*(text(f"- {line}") for line in lines))


def _help(answer: Explanation) -> Iterator[str]:
    """The suggestions, those that are changes of the job with what to write for them."""
    settings = {f"{change.text} would start it now": change for change in answer.changes}
    for line in answer.suggestions:
        yield line + _setting(settings.get(line))


def _setting(change: Change | None) -> str:
    settings = change.settings if change is not None else ()
    return f" ({' '.join(f'--set {shlex.quote(setting)}' for setting in settings)})" if settings else ""


def _row(blocker: Blocker) -> tuple[object, ...]:
    amounts = (blocker.needed, blocker.available, blocker.total)
    return blocker.role, blocker.resource, *(resource_amount(blocker.resource, amount) for amount in amounts)


def _holder(holder: Holder) -> tuple[object, ...]:
    until = date_time(holder.ends_by) if holder.ends_by else ""
    amount = resource_amount(holder.resource, holder.amount)
    return holder.job or "others", holder.resource, holder.pool, amount, until
