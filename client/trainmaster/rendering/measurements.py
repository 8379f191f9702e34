"""Everything that a diagnosis has measured as tables: facts of nodes, figures of devices, tests of pairs.

Each figure stands beside its limit, the middle of comparable ones and its place among them. Where there are more rows
than a page holds, those with something wrong come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from trainmaster.decoding import Fields
from trainmaster.rendering.heatmap import HeatMap, in_terminal
from trainmaster.rendering.style import by_name, table, text, titled

MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 8
_SPREAD_HEADERS: Final = ("LEAST", "MIDDLE", "MOST", "BROKEN BY")
FIGURE_HEADERS: Final = ("NODE", "DEVICE", "FIGURE", "VALUE", "LIMIT", "MIDDLE", "PERCENTILE", "AGAINST", "WHY")
PAIR_HEADERS: Final = (
    "PAIR",
    "OVER",
    "BANDWIDTH",
    "LATENCY",
    "LIMIT",
    "MIDDLE",
    "PERCENTILE",
    "AGAINST",
    "IN TURNS",
    "FAILED",
    "LINK",
    "WHY",
)
COLOURS: Final = {"green": "green", "amber": "yellow", "red": "bold red"}
_WRONG: Final = "red"


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[object, ...]
    is_wrong: bool


def measurements(report: Fields, most: int = MOST_ROWS) -> Iterator[RenderableType]:
    """The tables that there is something for, of so many rows each, and the heat-map of pairs."""
    for title, headers, rows in _tables(report, by_name(report.each("nodes"))):
        if rows:
            yield titled(title, _shown(headers, rows, most, report.text("id")))
    heat = HeatMap.of(report)
    if heat.values:
        yield titled("Bandwidth between nodes", Group(*(Text(line) for line in in_terminal(heat))))


def wrong_measurements(report: Fields, most: int) -> Iterator[RenderableType]:
    """Tables of what is wrong alone, of so many rows each, and where the rest is."""
    nodes = by_name(report.each("nodes"))
    for title, headers, rows in _tables(report, nodes):
        wrong = [row for row in rows if row.is_wrong]
        if wrong:
            yield titled(title, _shown(headers, wrong, most, report.text("id")))
    if nodes:
        yield text(f"all that the diagnosis measured: trainmaster diagnose --report {report.text('id')}")


def _tables(report: Fields, nodes: list[Fields]) -> tuple[tuple[str, tuple[str, ...], list[_Row]], ...]:
    """Title, headers and rows of each."""
    return (
        ("Facts", _fact_headers(nodes), _facts(nodes)),
        ("Figures", FIGURE_HEADERS, [_figure(node, each) for node in nodes for each in node.each("figures")]),
        ("Pairs", PAIR_HEADERS, list(_pairs(report))),
    )


def _shown(headers: Iterable[str], rows: list[_Row], most: int, report: str) -> RenderableType:
    if len(rows) <= most:
        return table(headers, (row.cells for row in rows))
    first = sorted(rows, key=lambda row: not row.is_wrong)[:most]
    more = text(f"and {len(rows) - most} more; trainmaster diagnose --report {report} -o json has all")
    return Group(table(headers, (row.cells for row in first)), more)


def _fact_headers(nodes: list[Fields]) -> tuple[str, ...]:
    """A column for each node, or how far apart they are where there are many."""
    return ("FACT", "LIMIT", *([node.text("name") for node in nodes] if _is_few(nodes) else _SPREAD_HEADERS))


def _is_few(nodes: list[Fields]) -> bool:
    return len(nodes) <= MOST_COLUMNS


def _facts(nodes: list[Fields]) -> list[_Row]:
    facts = [{fact.text("name"): fact for fact in node.each("facts")} for node in nodes]
    names = dict.fromkeys(name for each in facts for name in each)
    return [_fact(name, nodes, [each.get(name) for each in facts]) for name in names]


def _fact(name: str, nodes: list[Fields], told: list[Fields | None]) -> _Row:
    known = [fact for fact in told if fact is not None]
    wrong = [node.text("name") for node, fact in zip(nodes, told, strict=True) if fact is not None and fact.text("why")]
    cells = [text("") if fact is None else _value(fact) for fact in told] if _is_few(nodes) else _spread(known, wrong)
    return _Row((name, _limit(known[0]), *cells), bool(wrong))


def _spread(facts: list[Fields], wrong: list[str]) -> list[Text]:
    """The least, the middle and the most, and the nodes that break the limit."""
    ordered = sorted(facts, key=lambda fact: fact.number("value"))
    more = f" and {len(wrong) - MOST_COLUMNS} more" if len(wrong) > MOST_COLUMNS else ""
    named = text(", ".join(wrong[:MOST_COLUMNS]) + more, _WRONG if wrong else "")
    return [*(_value(ordered[place]) for place in (0, len(ordered) // 2, -1)), named]


def _value(figure: Fields) -> Text:
    style = _WRONG if figure.text("why") else ""
    return text(f"{_rounded(figure.number('value'))} {figure.text('unit')}".strip(), style)


def _figure(node: Fields, figure: Fields) -> _Row:
    cells = (
        node.text("name"),
        figure.text("device"),
        figure.text("name"),
        _value(figure),
        _limit(figure),
        _number(figure, "median"),
        _number(figure, "percentile"),
        figure.text("against"),
        text(figure.text("why"), _WRONG if figure.text("why") else ""),
    )
    return _Row(cells, bool(figure.text("why")))


def _pairs(report: Fields) -> Iterator[_Row]:
    names = {node.text("node"): node.text("name") for node in report.each("nodes")}
    for pair in report.each("pairs"):
        one, other = (names.get(pair.text(side), pair.text(side)) for side in ("first", "second"))
        verdict, failed = pair.text("verdict"), pair.integer("failed")
        cells = (
            f"{one} – {other}",
            pair.text("transport", "tcp"),
            f"{_measured(pair, 'bandwidthMbS', 'MB/s')}{_rails(pair)}",
            _measured(pair, "latencyUs", "µs"),
            "-" if pair.document.get("floorMbS") is None else f"≥ {_number(pair, 'floorMbS')} MB/s",
            _number(pair, "medianMbS"),
            _number(pair, "percentile"),
            pair.text("against"),
            pair.text("compared") or "-",
            f"{failed} of {pair.integer('tests')}",
            text(verdict, COLOURS.get(verdict, "")),
            text(pair.text("why"), _WRONG if pair.text("why") else ""),
        )
        yield _Row(cells, bool(failed))


def _rails(pair: Fields) -> str:
    rails = pair.document.get("railsMbS") or []
    return f" ({' + '.join(_rounded(float(rail)) for rail in rails)})" if len(rails) > 1 else ""


def _limit(figure: Fields) -> str:
    if figure.document.get("floor") is None:
        return "-"
    sign = "≤" if figure.flag("lessIsBetter") else "≥"
    return f"{sign} {_rounded(figure.number('floor'))} {figure.text('unit')}".rstrip()


def _measured(pair: Fields, name: str, unit: str) -> str:
    return "-" if pair.document.get(name) is None else f"{_number(pair, name)} {unit}"


def _number(fields: Fields, name: str) -> str:
    return "-" if fields.document.get(name) is None else _rounded(fields.number(name))


def _rounded(value: float) -> str:
    """Four digits at most, but whole numbers as they are."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
