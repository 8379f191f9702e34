"""The report of a diagnosis on a page: verdict of each node and why, what was measured, and lists of reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType

from trainmaster.decoding import Fields
from trainmaster.rendering.measurements import COLOURS, measurements
from trainmaster.rendering.moments import date_time
from trainmaster.rendering.style import by_name, table, text

NODE_HEADERS: Final = ("NODE", "VERDICT", "TESTED", "WHY")
_LEFT_OUT: Final = {
    "gpus": "GPUs that were not tested",
    "limit": "what was in doubt stays so",
    "directories": "directories that the agent cannot look at",
    "unmet": "pretended faults that no test has met",
}
LIST_HEADERS: Final = ("DIAGNOSIS", "ASKED", "BY", "STATE", "NODES", "TOOK", "PRETENDED")


def diagnosis_page(report: Fields) -> RenderableType:
    """The report."""
    parts: list[RenderableType] = [text(line) for line in _head(report)]
    nodes = by_name(report.each("nodes"))
    if nodes:
        parts.append(table(NODE_HEADERS, map(_node, nodes)))
    return Group(*parts, *measurements(report))


def diagnoses_list(reports: Iterable[Fields]) -> RenderableType:
    """Reports that are on record, without what they say."""
    return table(LIST_HEADERS, (_listed(report) for report in reports))


def is_bad(report: Fields) -> bool:
    """Whether a node is anything but green, or the diagnosis did not come to its end."""
    return report.text("state") in ("failed", "cancelled") or any(
        node.text("verdict") != "green" for node in report.each("nodes")
    )


def is_incomplete(report: Fields) -> bool:
    """Whether a node without a pass was only looked at."""
    return any(node.text("untested") for node in report.each("nodes"))


def _head(report: Fields) -> Iterator[str]:
    took = f" after {report.number('tookS'):.1f} s" if report.document.get("tookS") is not None else ""
    yield f"diagnosis {report.text('id')}: {report.text('state')}{took}"
    if report.text("message"):
        yield report.text("message")
    if report.texts("injected"):
        yield f"faults were pretended: {', '.join(report.texts('injected'))}"
    yield from _means(report)
    in_use = report.texts("inUse")
    if in_use:
        names = {node.text("node"): node.text("name") for node in report.each("nodes")}
        yield f"in use by jobs, and only looked at: {', '.join(sorted(names.get(node) or node for node in in_use))}"


def _means(report: Fields) -> Iterator[str]:
    """With what nodes were tested, where not all of it was possible; each reason once."""
    without: dict[tuple[str, str], list[str]] = {}
    for node in report.each("nodes"):
        about = node.fields("about")
        how = "tested over TCP, devices not at all" if about.text("transport") == "tcp" else "GPUs were only looked at"
        if about.text("without"):
            without.setdefault((how, about.text("without")), []).append(node.text("name"))
        for key, what in _LEFT_OUT.items():
            if about.text(key):
                without.setdefault((what, about.text(key)), []).append(node.text("name"))
    for (how, why), names in without.items():
        yield f"{how}: {', '.join(names)} ({why})"


def _node(node: Fields) -> tuple[object, ...]:
    verdict = node.text("verdict")
    untested = f"not tested: {node.text('untested')}" if node.text("untested") else ""
    what = "; ".join(filter(None, (*node.texts("problems"), *node.texts("doubts"), untested)))
    return node.text("name"), text(verdict, COLOURS.get(verdict, "")), "yes" if node.flag("tested") else "no", what


def _listed(report: Fields) -> tuple[object, ...]:
    took = f"{report.number('tookS'):.1f} s" if report.document.get("tookS") is not None else ""
    asked = date_time(report.time("requestedAt") or report.time("began"))
    who, state, nodes = report.text("by") or "a job", report.text("state"), report.integer("nodeCount")
    return report.text("id"), asked, who, state, nodes, took, ", ".join(report.texts("injected"))
