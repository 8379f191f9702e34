"""The bandwidth of pairs of nodes as a heat-map: shades in the terminal, colours in an SVG.

Shades go by the best value that there is: the fuller the block, the closer to it. A pair that failed and gave no value
is a cross, one that was not tested together is left empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from trainmaster.decoding import Fields
from trainmaster.rendering.style import by_name, printable

SHADES: Final = "░▒▓█"
FAILED: Final = "×"  # a cross, as people read it
MOST_IN_TERMINAL: Final = 64
_CELL: Final = 18
_MARGIN: Final = 140
_LEAST: Final = 0.5


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Names of nodes in their order, and the bandwidth of each tested pair by their ids; None where a test failed.

    `pretended` are the faults that the diagnosis was to pretend.
    """

    names: dict[str, str]
    values: dict[frozenset[str], float | None] = field(default_factory=dict)
    pretended: tuple[str, ...] = ()

    @classmethod
    def of(cls, report: Fields) -> HeatMap:
        """The pairs of a report; nodes that were in no test are left out."""
        names = {node.text("node"): node.text("name") for node in by_name(report.each("nodes"))}
        values = {
            frozenset((pair.text("first"), pair.text("second"))): _bandwidth(pair) for pair in report.each("pairs")
        }
        tested = {node for pair in values for node in pair}
        return cls({node: name for node, name in names.items() if node in tested}, values, report.texts("injected"))

    @property
    def best(self) -> float:
        """The highest bandwidth; 0 where there is none."""
        return max((value for value in self.values.values() if value is not None), default=0.0)

    def part(self, one: str, other: str) -> float | None:
        """The pair's part of the best value; None where there is no value."""
        value = self.values.get(frozenset((one, other)))
        return value / self.best if value is not None and self.best else None

    def was_tested(self, one: str, other: str) -> bool:
        """Whether the two were tested together."""
        return one != other and frozenset((one, other)) in self.values


def _bandwidth(pair: Fields) -> float | None:
    return None if pair.document.get("bandwidthMbS") is None else pair.number("bandwidthMbS")


def in_terminal(heat: HeatMap) -> Iterator[str]:
    """Lines of text; only a sentence where there are too many nodes."""
    nodes = list(heat.names)
    if len(nodes) > MOST_IN_TERMINAL:
        yield f"{len(nodes)} nodes are too many for a heat-map here; --svg FILE draws it"
        return
    width = max((len(printable(name)) for name in heat.names.values()), default=0)
    for node in nodes:
        yield f"{printable(heat.names[node]).rjust(width)} " + "".join(_shade(heat, node, other) for other in nodes)
    shades = f"{SHADES[-1]} = {heat.best:.0f} MB/s, {SHADES[0]} = half of it or less, " if heat.best else ""
    yield f"{shades}{FAILED} = failed"


def _shade(heat: HeatMap, one: str, other: str) -> str:
    if not heat.was_tested(one, other):
        return "  "
    part = heat.part(one, other)
    if part is None:
        return FAILED * 2
    step = int((part - _LEAST) / (1 - _LEAST) * len(SHADES))
    return SHADES[max(0, min(step, len(SHADES) - 1))] * 2


def as_svg(heat: HeatMap) -> str:
    """The map as an SVG document; a pair's figures are its title."""
    nodes = list(heat.names)
    size = _MARGIN + _CELL * len(nodes) + _CELL
    cells = (_cell(heat, nodes, row, column) for row in range(len(nodes)) for column in range(len(nodes)))
    labels = (_labels(heat.names[node], _MARGIN + _CELL * place + 13) for place, node in enumerate(nodes))
    box = f'width="{size}" height="{size}" font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    said = (_said(heat, size),) if heat.pretended else ()
    return (
        "\n".join((head, "<title>Bandwidth between nodes</title>", *said, *labels, *filter(None, cells), "</svg>"))
        + "\n"
    )


def _said(heat: HeatMap, size: int) -> str:
    """That it is not what was measured."""
    told = escape(printable(f"faults were pretended: {', '.join(heat.pretended)}"))
    return f'<text x="6" y="{size - 4}" fill="#d73027">{told}</text>'


def _labels(name: str, at: int) -> str:
    """The name of a node beside its row and above its column."""
    label = escape(printable(name))
    row = f'<text x="{_MARGIN - 6}" y="{at}" text-anchor="end">{label}</text>'
    return f'{row}<text transform="translate({at} {_MARGIN - 6}) rotate(-90)">{label}</text>'


def _cell(heat: HeatMap, nodes: Sequence[str], row: int, column: int) -> str:
    one, other = nodes[row], nodes[column]
    if not heat.was_tested(one, other):
        return ""
    value, part = heat.values[frozenset((one, other))], heat.part(one, other)
    told = "failed" if value is None else f"{value:.0f} MB/s"
    colour = "#000000" if part is None else _colour(part)
    title = escape(printable(f"{heat.names[one]} and {heat.names[other]}: {told}"))
    place = f'x="{_MARGIN + _CELL * column}" y="{_MARGIN + _CELL * row}"'
    return f'<rect {place} width="{_CELL - 1}" height="{_CELL - 1}" fill="{colour}"><title>{title}</title></rect>'


def _colour(part: float) -> str:
    """From red at half of the best value to green at the best."""
    good = max(0.0, min((part - _LEAST) / (1 - _LEAST), 1.0))
    return f"#{int(215 - 189 * good):02x}{int(48 + 104 * good):02x}{int(39 + 41 * good):02x}"
