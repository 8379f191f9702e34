"""Scalars of a job as curves in the terminal; attempts of one curve are drawn over each other, each with its number.

plotext draws on one figure that the whole process shares; it is cleared before each curve, and what it paints is taken
as plain characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import plotext

from trainmaster.documents import Curve
from trainmaster.rendering.style import printable

WIDTH: Final = 78
HEIGHT: Final = 14

_Points = list[tuple[int, float]]


def curves(found: Iterable[Curve], width: int = WIDTH, height: int = HEIGHT) -> Iterator[str]:
    """Each curve as text, with the first, best and last values of each attempt underneath."""
    together: dict[tuple[str, str], list[Curve]] = {}
    for curve in found:
        together.setdefault((curve.run, curve.tag), []).append(curve)
    for attempts in together.values():
        yield "\n".join(_picture(attempts, width, height))


def _picture(attempts: Sequence[Curve], width: int, height: int) -> Iterator[str]:
    points = [_finite(curve) for curve in attempts]
    several = len(attempts) > 1
    markers = [str(curve.attempt % 10) if several else None for curve in attempts]
    yield _drawn(printable(attempts[0].name), list(zip(markers, points, strict=True)), width, height)
    for curve, finite in zip(attempts, points, strict=True):
        summary = _summary(finite, len(curve.points))
        yield f"  attempt {curve.attempt}: {summary}" if several else f"  {summary}"


def _finite(curve: Curve) -> _Points:
    return [(point.step, point.value) for point in curve.points if math.isfinite(point.value)]


def _drawn(title: str, lines: Sequence[tuple[str | None, _Points]], width: int, height: int) -> str:
    if not any(points for _, points in lines):
        return title
    figure = plotext.figure
    figure.clear.all()
    figure.theme("colorless")
    figure.plot_size(width, height)
    for marker, points in lines:
        if points:
            steps, values = [step for step, _ in points], [value for _, value in points]
            figure.draw(figure.signal(steps, values, marker=marker).lines())
    figure.title(title)
    figure.label("step")
    drawn: str = plotext.uncolorize(str(figure.build()))
    return "\n".join(line.rstrip() for line in drawn.rstrip("\n").splitlines())


def _summary(points: _Points, total: int) -> str:
    left_out = f", {total - len(points)} not finite" if total > len(points) else ""
    if not points:
        return f"no point to draw{left_out}"
    values = [value for _, value in points]
    last_step, last = points[-1]
    count = f"{len(points)} point{'s' if len(points) > 1 else ''}{left_out}"
    span = f"first {values[0]:.6g}, lowest {min(values):.6g}, highest {max(values):.6g}"
    return f"{count}, {span}, last {last:.6g} at step {last_step}"
