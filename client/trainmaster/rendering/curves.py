"""Scalars of a job as curves in the terminal.

plotext draws on one figure that the whole process shares; it is cleared before each curve, and what it paints is taken
as plain characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import plotext

from trainmaster.documents import Curve
from trainmaster.rendering.style import printable

WIDTH: Final = 78
HEIGHT: Final = 14


def curves(found: Iterable[Curve], width: int = WIDTH, height: int = HEIGHT) -> Iterator[str]:
    """Each curve as text, with its first, best and last values underneath."""
    for curve in found:
        points = [(point.step, point.value) for point in curve.points if math.isfinite(point.value)]
        yield f"{_drawn(printable(curve.tag), points, width, height)}\n{_summary(points, len(curve.points))}"


def _drawn(title: str, points: list[tuple[int, float]], width: int, height: int) -> str:
    if not points:
        return title
    figure = plotext.figure
    figure.clear.all()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.draw(figure.signal([step for step, _ in points], [value for _, value in points]).lines())
    figure.title(title)
    figure.label("step")
    drawn: str = plotext.uncolorize(str(figure.build()))
    return "\n".join(line.rstrip() for line in drawn.rstrip("\n").splitlines())


def _summary(points: list[tuple[int, float]], total: int) -> str:
    left_out = f", {total - len(points)} not finite" if total > len(points) else ""
    if not points:
        return f"  no point to draw{left_out}"
    values = [value for _, value in points]
    last_step, last = points[-1]
    count = f"{len(points)} point{'s' if len(points) > 1 else ''}{left_out}"
    span = f"first {values[0]:.6g}, lowest {min(values):.6g}, highest {max(values):.6g}"
    return f"  {count}, {span}, last {last:.6g} at step {last_step}"
