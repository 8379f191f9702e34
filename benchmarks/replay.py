"""A month of jobs through the real planner: how full the cluster is, how long jobs wait, how scattered the rest is.

Three ways to run the same jobs: a `fifo` pool; a `backfill` pool whose jobs all have a `maxRunTime` (one to three times
what they need); and what a job gets that says nothing, a `backfill` pool without time limits. Then once more with every
submission up to ten minutes earlier or later: figures that such noise moves much are luck.

The jobs are made up, with a heavy tail: 1 to 1,024 GPUs, minutes to days, on 256 nodes of eight GPUs. `--trace FILE`
replays a trace instead (see `benchmarks.traces` for its columns), on machines as the other options say.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.report import Row, percentile, progress, report
from benchmarks.simulation import Machine, Outcome, Simulation
from benchmarks.traces import COLUMNS, TraceError, TraceJob, made_up, perturbed, read
from services.scheduler.domain.gang import QueuePolicy

_DAYS: Final = 30.0
_QUICK_DAYS: Final = 5.0
_LOAD: Final = 0.85
_NOISE_S: Final = 600.0
_MINUTE_S: Final = 60.0
_SIZES: Final = ((0, 0), (1, 1), (2, 8), (9, 64), (65, 512), (513, 1_000_000))


def main() -> None:
    """Replay and report."""
    options = _options()
    machine = Machine(options.gpus, options.cpus, options.memory)
    try:
        jobs = _jobs(options)
    except TraceError as error:
        raise SystemExit(f"replay: {error}") from None
    rows = []
    for name, policy, limits in (
        ("fifo", QueuePolicy.FIFO, None),
        ("backfill, time limits", QueuePolicy.BACKFILL, options.seed),
        ("backfill, no limits (default)", QueuePolicy.BACKFILL, None),
    ):
        progress(f"{len(jobs)} jobs on {options.nodes} nodes: {name}")
        rows += _rows(name, Simulation(options.nodes, machine, policy).run(jobs, _limits(jobs, limits)))
    progress("the default once more, every submission up to ten minutes earlier or later")
    shaken = perturbed(jobs, _NOISE_S, options.seed)
    again = Simulation(options.nodes, machine, QueuePolicy.BACKFILL).run(shaken, _limits(shaken, None))
    report("replay", [*rows, *_rows("default, perturbed", again)])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="five days instead of thirty")
    parser.add_argument("--trace", type=Path, help="a CSV file to replay instead of made-up jobs")
    parser.add_argument("--columns", default="", help="names in the trace: submit=NAME,duration=NAME,…")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--cpus", type=int, default=128, help="of each node")
    parser.add_argument("--memory", type=int, default=1024, help="of each node, in GiB")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> list[TraceJob]:
    if options.trace is not None:
        return read(options.trace, _names(options.columns))
    days = _QUICK_DAYS if options.quick else _DAYS
    return made_up(days, options.nodes * options.gpus, _LOAD, options.seed)


def _names(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for column, _, name in pairs:
        if column not in COLUMNS or not name:
            raise TraceError(f"--columns: {column!r} is none; give pairs such as submit=NAME for {', '.join(COLUMNS)}")
    return {column: name for column, _, name in pairs}


def _limits(jobs: Sequence[TraceJob], seed: int | None) -> list[float | None]:
    """A time limit for each job, as people guess them; none where there is no seed to guess with."""
    chosen = random.Random(seed)
    return [None if seed is None else job.duration_s * chosen.uniform(1, 3) for job in jobs]


def _rows(name: str, outcome: Outcome) -> Iterator[Row]:
    yield Row(f"{name}: GPUs in use", 100 * outcome.used, "%", "higher")
    yield Row(f"{name}: GPUs free on nodes in part use", 100 * outcome.scattered, "%", "lower")
    yield from _waits(f"{name}: all {len(outcome.runs)}", [run.wait_s for run in outcome.runs])
    for least, most in _SIZES:
        waits = [run.wait_s for run in outcome.runs if least <= run.gpus <= most]
        size = f"{least}" if least == most else f"{least} to {most}" if most < _SIZES[-1][1] else f"over {least - 1}"
        yield from _waits(f"{name}: {len(waits)} of {size} GPUs", waits)
    if outcome.refused:
        yield Row(f"{name}: refused, larger than the cluster", outcome.refused, "jobs", "lower")


def _waits(name: str, waits_s: list[float]) -> Iterator[Row]:
    if waits_s:
        yield Row(f"{name}: wait, mean", sum(waits_s) / len(waits_s) / _MINUTE_S, "min", "lower")
        yield Row(f"{name}: wait, p95", percentile(waits_s, 95) / _MINUTE_S, "min", "lower")


if __name__ == "__main__":
    main()
