"""Jobs of a month to replay: made up with a heavy tail, or read from a trace.

A trace is a CSV file with a header. Columns are found by name, or by the names that `--columns` gives for them:

    submit    when the job was submitted: seconds, or a date and time (2026-01-31T08:00:00Z)
    duration  how long it ran, in seconds
    gpus      how many GPUs it had altogether; may be missing, as for CPU clusters
    cpus      how many cores it had altogether
    memory    how much memory altogether, in GiB
    user      optional; whose it was

Times count from the first submission. Lines in which a job ran for no time are left out, as traces have many of them.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

COLUMNS: Final = ("submit", "duration", "gpus", "cpus", "memory", "user")
_OPTIONAL: Final = frozenset({"gpus", "user"})
_GIB: Final = 1 << 30
_DAY_S: Final = 86_400
_SHORTEST_S: Final = 120.0
_LONGEST_S: Final = 4.0 * _DAY_S
# How often each size comes, from 1 to 1,024 GPUs: most jobs are small, most GPU time is in the large ones.
_SIZES: Final = tuple(1 << power for power in range(11))
_FREQUENCIES: Final = (400, 180, 120, 140, 60, 40, 25, 15, 8, 4, 1)


class TraceError(ValueError):
    """A trace that cannot be read: where, what is wrong, what would be right."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job as it was: what it had altogether, and for how long."""

    submit_s: float
    duration_s: float
    gpus: int
    cpus: float
    memory_bytes: int
    user: str = ""


def made_up(days: float, gpus: int, load: float, seed: int) -> list[TraceJob]:
    """Jobs that would fill so much of a cluster of so many GPUs."""
    chosen, jobs, wanted_s = random.Random(seed), [], gpus * days * _DAY_S * load
    while wanted_s > 0:
        size = chosen.choices(_SIZES, _FREQUENCIES)[0]
        duration_s = min(max(chosen.lognormvariate(9.0, 1.6), _SHORTEST_S), _LONGEST_S)
        submit_s = chosen.uniform(0, days * _DAY_S)
        jobs.append(TraceJob(submit_s, duration_s, size, 12 * size, 96 * size * _GIB, f"user-{chosen.randrange(40)}"))
        wanted_s -= size * duration_s
    return sorted(jobs, key=lambda job: job.submit_s)


def perturbed(jobs: Iterable[TraceJob], by_s: float, seed: int) -> list[TraceJob]:
    """The same jobs, each submitted a little earlier or later."""
    chosen = random.Random(seed)
    moved = (
        TraceJob(
            max(job.submit_s + chosen.uniform(-by_s, by_s), 0),
            job.duration_s,
            job.gpus,
            job.cpus,
            job.memory_bytes,
            job.user,
        )
        for job in jobs
    )
    return sorted(moved, key=lambda job: job.submit_s)


def read(path: Path, names: Mapping[str, str] | None = None) -> list[TraceJob]:
    """The jobs of a trace by submission; `names` are those of its columns, where they are others. Raises TraceError."""
    called = {column: (names or {}).get(column, column) for column in COLUMNS}
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = [
            name for column, name in called.items() if name not in (rows.fieldnames or ()) and column not in _OPTIONAL
        ]
        if missing:
            there = ", ".join(rows.fieldnames or ()) or "nothing"
            raise TraceError(f"{path}: there is no column {missing[0]!r}; the header has {there}; give --columns")
        jobs = sorted(_jobs(path, rows, called), key=lambda job: job.submit_s)
    first_s = jobs[0].submit_s if jobs else 0.0
    return [
        TraceJob(job.submit_s - first_s, job.duration_s, job.gpus, job.cpus, job.memory_bytes, job.user) for job in jobs
    ]


def _jobs(path: Path, rows: Iterable[Mapping[str, str | None]], called: Mapping[str, str]) -> Iterator[TraceJob]:
    for number, row in enumerate(rows, start=2):
        cell = _Cells(path, number, {column: (row.get(name) or "").strip() for column, name in called.items()}, called)
        job = TraceJob(
            cell.time("submit"),
            cell.number("duration"),
            int(cell.number("gpus")),
            cell.number("cpus"),
            int(cell.number("memory") * _GIB),
            cell.text["user"],
        )
        if job.duration_s > 0:
            yield job


@dataclass(frozen=True, slots=True)
class _Cells:
    path: Path
    line: int
    text: Mapping[str, str]
    called: Mapping[str, str]

    def number(self, column: str) -> float:
        """What stands there; nothing is 0."""
        text = self.text[column]
        try:
            value = float(text or 0)
        except ValueError:
            raise self._error(column, "a number") from None
        if not 0 <= value < float("inf"):
            raise self._error(column, "a number from 0 on")
        return value

    def time(self, column: str) -> float:
        """Seconds, or a date and time."""
        text = self.text[column]
        try:
            return float(text)
        except ValueError:
            pass
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise self._error(column, "seconds, or a date and time such as 2026-01-31T08:00:00Z") from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

    def _error(self, column: str, wanted: str) -> TraceError:
        name = self.called[column]
        return TraceError(f"{self.path}, line {self.line}: {self.text[column]!r} in column {name!r} is not {wanted}")
