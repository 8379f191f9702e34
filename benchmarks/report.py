"""What every benchmark gives: rows of a figure, its goal, and what a peer or a physical limit gave in the same run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure; `goal` is what the issue asks for, `peer` says what stands beside it."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    goal: float | None = None
    peer: str = ""
    peer_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """Value over the peer's."""
        return round(self.value / self.peer_value, 3) if self.peer_value else None

    @property
    def verdict(self) -> str:
        """Whether the goal is reached."""
        if self.goal is None:
            return ""
        reached = self.value <= self.goal if self.better == "lower" else self.value >= self.goal
        return "ok" if reached else "MISSED"


def report(benchmark: str, rows: Sequence[Row]) -> None:
    """Print the table and write `benchmarks/out/<benchmark>.json`."""
    table = [("figure", "value", "unit", "goal", "", "peer or limit", "peer's value", "ratio")]
    table += [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    OUT.mkdir(exist_ok=True)
    document = [{**asdict(row), "ratio": row.ratio} for row in rows]
    (OUT / f"{benchmark}.json").write_text(json.dumps(document, indent=2) + "\n")


def progress(text: str) -> None:
    """Say what is being measured."""
    print(f"… {text}", flush=True)


def percentile(values: Sequence[float], percent: int) -> float:
    """A percentile by the nearest rank between measured values."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _cells(row: Row) -> tuple[str, ...]:
    goal = "" if row.goal is None else f"{'≤' if row.better == 'lower' else '≥'} {row.goal:g}"
    peer = "" if row.peer_value is None else f"{row.peer_value:.4g}"
    ratio = "" if row.ratio is None else f"{row.ratio:g}"
    return row.name, f"{row.value:.4g}", row.unit, goal, row.verdict, row.peer, peer, ratio
