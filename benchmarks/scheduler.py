"""The scheduler: its start over a long past and its take-overs, and the planner on one thread.

Of the planner: how long one cycle takes, and how that grows with the cluster.

Times are of the thread (so that other work on the machine does not count), the median of several runs. A cycle goes
from the snapshot to the plan, with a node and device ids for every replica; what comes after it (events, engine calls)
is not in it. Peers publish rates or durations of whole systems, taken from their repositories; beside them stands the
time that the same number of pods, workloads or jobs would take them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from benchmarks import clusters, scheduler_service
from benchmarks.report import Row, percentile, progress, report
from services.scheduler.domain.explaining.changes import Means, Offers
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.layout import Layout
from services.scheduler.domain.planning.plan import Snapshot, plan
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.standing import Asker, Standing, explained, waiting

Result = TypeVar("Result")

_RUNS: Final = 5
_NODES: Final = 10_000
_CURVE: Final = (1_000, 2_000, 5_000, 10_000)
_CYCLES: Final = 200
_BACKLOG: Final = 1_000
# Gangs of these sizes wait in a cluster that is full of small ones.
_LARGE: Final = (4096, 5120, 6144, 8192)

# Rates that peers publish; see docs/scheduling.md for their sources.
_KUBE_PODS_A_S: Final = 680
_KUEUE_WORKLOADS_A_S: Final = 42.7
_VOLCANO_JOBS_A_S: Final = 55.6


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no curve, and a tenth of the past")
    quick = parser.parse_args().quick
    rows = scheduler_service.rows(quick=quick)
    gc.disable()
    rows += [*_cycles(_NODES), *_steady(_NODES), *_answers(_NODES), _rebuild(_NODES)]
    if not quick:
        rows += [row for count in _CURVE for row in _growth(count)]
    report("scheduler", rows)


def _cycles(count: int) -> Iterator[Row]:
    made = clusters.state(count)
    kube_ms = 1000 * count / _KUBE_PODS_A_S
    progress(f"{count} nodes: one gang of {count} replicas")
    for name, request in (("a GPU each", clusters.ONE_GPU), ("a node each", clusters.WHOLE_NODE)):
        took = _planned_ms(made, [clusters.gang(1, count, request)], replicas=count)
        yield Row(
            f"one gang of {count} replicas, {name}", took, "ms", "lower", 25, "kube-scheduler, its CI's gate", kube_ms
        )
    progress(f"{count} nodes: 1,000 gangs of about 10 replicas")
    took = _planned_ms(made, clusters.gangs(1_000, range(1, 20), seed=1))
    yield Row(
        "1,000 gangs of 1 to 19", took, "ms", "lower", 250, "Kueue, baseline", 1000 * 1_000 / _KUEUE_WORKLOADS_A_S
    )
    progress(f"{count} nodes: {count} jobs of one replica")
    took = _planned_ms(made, clusters.gangs(count, (1,), seed=2), replicas=count)
    yield Row(f"{count} jobs of one replica", took, "ms", "lower", 300, "kube-scheduler, its CI's gate", kube_ms)
    volcano_ms = 1000 * count / _VOLCANO_JOBS_A_S
    yield Row(f"{count} jobs of one replica", took, "ms", "lower", 300, "Volcano, tuned", volcano_ms)


def _growth(count: int) -> Iterator[Row]:
    progress(f"curve: {count} nodes")
    made = clusters.state(count)
    took = _planned_ms(made, [clusters.gang(1, count, clusters.ONE_GPU)], replicas=count)
    yield Row(f"{count} nodes: one gang of {count}", took, "ms", "lower")
    took = _planned_ms(made, clusters.gangs(count // 10, range(1, 20), seed=1))
    yield Row(f"{count} nodes: {count // 10} gangs of 1 to 19", took, "ms", "lower")
    took = _planned_ms(made, clusters.gangs(count, (1,), seed=2), replicas=count)
    yield Row(f"{count} nodes: {count} jobs of one", took, "ms", "lower")
    times = _steady_ms(*_full(count, longest_s=None))
    yield Row(f"{count} nodes: a steady cycle, p50", percentile(times, 50), "ms", "lower")


def _planned_ms(made: State, gangs: Sequence[Gang], replicas: int | None = None) -> float:
    """The median time of planning these gangs on idle nodes, seats and devices included."""
    snapshot, times = Snapshot(made.ledger.columns, Queue(gangs)), []
    for _ in range(_RUNS):
        took_ms, seats = _timed(partial(_seats_of_plan, snapshot))
        if len(seats) != len(gangs) or replicas not in (None, sum(seats)):
            raise RuntimeError(f"{len(seats)} of {len(gangs)} gangs were placed")
        times.append(took_ms)
    return statistics.median(times)


def _seats_of_plan(snapshot: Snapshot) -> list[int]:
    return [len(start.seats) for start in plan(snapshot, clusters.START).starts]


# --- one ends, one starts


def _steady(count: int) -> Iterator[Row]:
    goal = 2.0
    progress(f"{count} nodes: steady state, nobody waits")
    times = _steady_ms(*_full(count, longest_s=None))
    yield Row("a job ends, one starts, p50", percentile(times, 50), "ms", "lower", goal)
    yield Row("a job ends, one starts, p95", percentile(times, 95), "ms", "lower", goal)
    for longest_s, ends in ((None, "ends unknown"), (86_400.0, "ends known")):
        progress(f"{count} nodes: steady state, {_BACKLOG} gangs wait, {ends}")
        made, running = _full(count, longest_s)
        for gang in clusters.gangs(_BACKLOG, _LARGE, seed=3, shapes=(clusters.WHOLE_NODE,)):
            made.wait(_numbered(gang, 10**6 + gang.sequence))
        times = _steady_ms(made, running)
        yield Row(f"the same behind {_BACKLOG} gangs that wait, {ends}, p50", percentile(times, 50), "ms", "lower")


def _full(count: int, longest_s: float | None) -> tuple[State, list[Gang]]:
    """A cluster that is nine tenths full with gangs of many sizes, and these gangs."""
    made = clusters.state(count)
    sizes = [1] * 6 + [2, 4, 8, 8, 16, 32, 64]
    wanted = [
        clusters.gang(gang.sequence, gang.roles[0].replicas, gang.roles[0].request, longest_s=longest_s)
        for gang in clusters.gangs(count // 2, sizes, seed=5, shapes=clusters.SHAPES[:4])
    ]
    for gang in wanted:
        made.wait(gang)
    started = plan(made.snapshot(), clusters.START).starts
    clusters.carry_out(started, made, clusters.START)
    made.queue = Queue()
    return made, [start.gang for start in started]


def _steady_ms(made: State, running: list[Gang]) -> list[float]:
    """Times of cycles in which one gang ends and one like it is submitted; bookkeeping included."""
    times, now = [], clusters.START + timedelta(hours=1)
    for cycle in range(_CYCLES):
        place = cycle % len(running)
        newcomer = _numbered(running[place], 10**7 + cycle)
        took_ms, _ = _timed(partial(_turn_over, made, running[place], newcomer, now))
        times.append(took_ms)
        running[place] = newcomer
    return times


def _turn_over(made: State, ended: Gang, newcomer: Gang, now: datetime) -> None:
    made.release(ended.job)
    made.wait(newcomer)
    decided = plan(made.snapshot(), now)
    made.note(decided)
    clusters.carry_out(decided.starts, made, now)


def _numbered(gang: Gang, number: int) -> Gang:
    role = gang.roles[0]
    return clusters.gang(number, role.replicas, role.request, longest_s=gang.longest_s)


# --- why it waits


def _answers(count: int) -> Iterator[Row]:
    """What `explain` takes, in a thread of its own while scheduling goes on, and how long it keeps scheduling."""
    for waiting_gangs in (100, _BACKLOG):
        progress(f"{count} nodes: explain, {waiting_gangs} gangs wait")
        made, _ = _full(count, longest_s=86_400.0)
        for gang in clusters.gangs(waiting_gangs, _LARGE, seed=3, shapes=(clusters.WHOLE_NODE,)):
            made.wait(_numbered(gang, 10**6 + gang.sequence))
        asked = tuple(made.queue)[:_RUNS]
        copied = [_timed(made.snapshot().frozen)[0] for _ in range(_RUNS)]
        times = [_timed(partial(_explained, made.snapshot().frozen(), gang))[0] for gang in asked]
        yield Row(f"explain, {waiting_gangs} gangs wait", statistics.median(times), "ms", "lower")
        yield Row("of it in the way of scheduling", statistics.median(copied), "ms", "lower")


def _explained(snapshot: Snapshot, gang: Gang) -> Standing:
    trials = Trials(snapshot, clusters.START + timedelta(hours=1))
    types = {f"type-{number}": shape for number, shape in enumerate(clusters.SHAPES)}
    return explained(waiting(gang, trials), trials, Asker(lambda _job: True, Means({"worker": Offers(types=types)})))


def _rebuild(count: int) -> Row:
    progress(f"{count} nodes: all columns and {len(clusters.SHAPES)} counts from nothing")
    layout = clusters.state(count).ledger.columns.layout

    times = [_timed(partial(_counted_anew, layout))[0] for _ in range(_RUNS)]
    return Row(f"columns and counts of {len(clusters.SHAPES)} shapes anew", statistics.median(times), "ms", "lower")


def _counted_anew(layout: Layout) -> None:
    columns = Columns.empty(layout)
    for shape in clusters.SHAPES:
        columns.count(clusters.POOL, shape)


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Milliseconds of this thread, and what came of it."""
    began = time.thread_time()
    result = work()
    return 1000 * (time.thread_time() - began), result


if __name__ == "__main__":
    main()
