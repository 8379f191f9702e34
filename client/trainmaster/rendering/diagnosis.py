"""The report of a diagnosis on a page: verdict of each node, what is wrong, figures, and the heat-map of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.decoding import Fields
from trainmaster.rendering.heatmap import HeatMap, in_terminal
from trainmaster.rendering.style import table, text, titled

NODE_HEADERS: Final = ("NODE", "VERDICT", "TESTED", "WHAT")
FIGURE_HEADERS: Final = ("NODE", "FIGURE", "VALUE", "MIDDLE", "PERCENTILE", "AGAINST")
COLOURS: Final = {"green": "green", "amber": "yellow", "red": "bold red"}


def diagnosis_page(report: Fields) -> RenderableType:
    """The report."""
    parts: list[RenderableType] = [text(line) for line in _head(report)]
    parts.append(table(NODE_HEADERS, (_node(node) for node in report.each("nodes"))))
    parts.append(titled("Figures", table(FIGURE_HEADERS, _figures(report))))
    heat = HeatMap.of(report)
    if heat.values:
        parts.append(titled("Bandwidth between nodes", Group(*(Text(line) for line in in_terminal(heat)))))
    return Group(*parts)


def is_bad(report: Fields) -> bool:
    """Whether a node is anything but green, or the diagnosis did not come to its end."""
    return report.text("state") in ("failed", "cancelled") or any(
        node.text("verdict") != "green" for node in report.each("nodes")
    )


def _head(report: Fields) -> Iterator[str]:
    took = f" after {report.number('tookS'):.1f} s" if report.document.get("tookS") is not None else ""
    yield f"diagnosis {report.text('id')}: {report.text('state')}{took}"
    if report.text("message"):
        yield report.text("message")
    if report.texts("injected"):
        yield f"faults were pretended: {', '.join(report.texts('injected'))}"
    yield from _means(report)
    if report.texts("inUse"):
        yield f"in use by jobs, and only looked at: {', '.join(report.texts('inUse'))}"


def _means(report: Fields) -> Iterator[str]:
    """With what nodes were tested, where that was not PyTorch; each reason once."""
    without: dict[str, list[str]] = {}
    for node in report.each("nodes"):
        why = node.fields("about").text("without")
        if why:
            without.setdefault(why, []).append(node.text("name"))
    for why, names in without.items():
        yield f"tested over TCP, devices not at all: {', '.join(names)} ({why})"


def _node(node: Fields) -> tuple[object, ...]:
    verdict = node.text("verdict")
    what = "; ".join((*node.texts("problems"), *node.texts("doubts")))
    return node.text("name"), text(verdict, COLOURS.get(verdict, "")), "yes" if node.flag("tested") else "no", what


def _figures(report: Fields) -> Iterator[tuple[object, ...]]:
    for node in report.each("nodes"):
        for figure in node.each("figures"):
            name = " ".join(filter(None, (figure.text("device"), figure.text("name"))))
            yield (
                node.text("name"),
                name,
                f"{figure.number('value'):.4g} {figure.text('unit')}",
                _number(figure, "median"),
                _number(figure, "percentile"),
                figure.text("against"),
            )


def _number(figure: Fields, name: str) -> str:
    return "-" if figure.document.get(name) is None else f"{figure.number(name):.4g}"
