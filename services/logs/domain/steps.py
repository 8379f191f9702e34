"""What the first steps of each rank took, read from logs and scalars.

The hook of training code (`trainmaster_hook`) writes a line for each window of steps: the middle of what a step's own
part, its waiting for other ranks and its waiting for data took. Without it, lines that count steps, or the steps of
scalars, tell when each replica was how far. Their step times are compared over the same steps: these are cut into
windows that all replicas have, and when a replica was at the edge of one is read off between its points.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from services.logs.domain.progress import of_lines
from shared.events import RankSteps

MARKER: Final = b"TM_STEPS="
WINDOWS: Final = 8
WINDOWS_MAX: Final = 12
RANKS_MAX: Final = 320
_NUMBER: Final = rb"(\d{1,12}(?:\.\d{1,6})?)"
_LINE: Final = re.compile(
    rb"TM_STEPS=(\d{1,12}) rank=(\d{1,6})/(\d{1,6}) compute_ms=%b wait_ms=%b data_ms=%b left=(\d{1,4})\b"
    % (_NUMBER, _NUMBER, _NUMBER)
)

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class HookLine:
    """What one rank says of a window of steps; `left` windows follow."""

    last_step: int
    rank: int
    world: int
    compute_ms: float
    wait_ms: float
    data_ms: float
    left: int


@dataclass(frozen=True, slots=True)
class Point:
    """When a replica had done so many steps."""

    step: int
    at_s: float


def hook_lines(text: bytes) -> Iterator[HookLine]:
    """The lines of the hook in a piece of a log, whatever a logger puts around them."""
    if MARKER not in text:
        return
    for found in _LINE.finditer(text):
        step, rank, world, compute, wait, data, left = found.groups()
        yield HookLine(int(step), int(rank), int(world), float(compute), float(wait), float(data), int(left))


def rank_steps(place: Place, lines: Sequence[HookLine]) -> RankSteps:
    """The first windows of one rank; `lines` are its own."""
    role, index = place
    ordered = sorted({line.last_step: line for line in lines}.values(), key=lambda line: line.last_step)[:WINDOWS_MAX]
    return RankSteps(
        role=role,
        index=index,
        rank=ordered[0].rank,
        last_steps=tuple(line.last_step for line in ordered),
        compute_ms=tuple(line.compute_ms for line in ordered),
        wait_ms=tuple(line.wait_ms for line in ordered),
        data_ms=tuple(line.data_ms for line in ordered),
    )


def are_complete(lines: Iterable[HookLine]) -> bool:
    """Whether every rank of the job has said all that it will say."""
    told = list(lines)
    finished = {line.rank for line in told if line.left == 0}
    return bool(told) and len(finished) >= max(line.world for line in told)


def points_of_lines(lines: Iterable[tuple[float, str]]) -> list[Point]:
    """When which step was reached, by lines with their times; up to where steps are counted anew."""
    found: list[Point] = []
    for at_s, line in lines:
        step = of_lines([line]).step
        if step is None or (found and step == found[-1].step):
            continue
        if found and step < found[-1].step:
            break
        found.append(Point(step, at_s))
    return found


def compared(points: Mapping[Place, Sequence[Point]], least_window_s: float) -> list[RankSteps]:
    """Step times of replicas over the steps that all of them made; none where these took too short a time."""
    usable = {place: each for place, each in sorted(points.items()) if len(each) > 1}
    if not usable:
        return []
    first = max(each[0].step for each in usable.values())
    last = min(each[-1].step for each in usable.values())
    if last - first < WINDOWS:
        return []
    edges = np.linspace(first, last, WINDOWS + 1).round()
    found = [_steps(number, place, each, edges.tolist()) for number, (place, each) in enumerate(usable.items())]
    shortest_s = min(ms * (last - first) / WINDOWS / 1000 for rank in found for ms in rank.compute_ms)
    return found if shortest_s >= least_window_s else []


def bounded(ranks: Sequence[RankSteps]) -> tuple[RankSteps, ...]:
    """So many ranks as an event has room for: those that waited least, and some of all others to compare them with."""
    if len(ranks) <= RANKS_MAX:
        return tuple(ranks)
    ordered = sorted(ranks, key=lambda rank: (sum(rank.wait_ms), -sum(rank.compute_ms)))
    half = RANKS_MAX // 2
    rest = ordered[half:]
    chosen = (rest[len(rest) * place // half] for place in range(half))
    return tuple(sorted((*ordered[:half], *chosen), key=lambda rank: (rank.role, rank.index, rank.rank)))


def _steps(number: int, place: Place, points: Sequence[Point], edges: Sequence[float]) -> RankSteps:
    times = np.interp(edges, [point.step for point in points], [point.at_s for point in points]).tolist()
    spans = list(zip(pairwise(edges), pairwise(times), strict=True))
    return RankSteps(
        role=place[0],
        index=place[1],
        rank=number,
        last_steps=tuple(int(stop) for (_, stop), _ in spans),
        compute_ms=tuple(
            round(1000 * max(after - before, 0.0) / (stop - start), 3) for (start, stop), (before, after) in spans
        ),
    )
