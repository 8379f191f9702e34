"""Small traces whose outcome can be told by hand."""

from __future__ import annotations

from benchmarks.simulation import Machine, Simulation
from benchmarks.traces import TraceJob
from services.scheduler.domain.gang import QueuePolicy

HOUR = 3600.0
GIB = 1 << 30


def job(submit_s: float, duration_s: float, gpus: int) -> TraceJob:
    return TraceJob(submit_s, duration_s, gpus, 8 * gpus, 8 * gpus * GIB)


def replayed(*jobs: TraceJob, policy=QueuePolicy.BACKFILL, limits=None, nodes: int = 2):
    return Simulation(nodes, Machine(), policy).run(jobs, limits or [None] * len(jobs))


def test_a_job_waits_for_the_end_of_the_one_before_it():
    outcome = replayed(job(0, HOUR, 16), job(60, HOUR, 16), job(2 * HOUR, HOUR, 1))
    assert [(run.gpus, run.wait_s) for run in outcome.runs] == [(16, 0), (16, HOUR - 60), (1, 0)]
    assert outcome.used == 1.0


def test_a_fifo_pool_makes_the_small_wait_behind_the_large_and_backfill_does_not():
    jobs = job(0, HOUR, 8), job(60, HOUR, 16), job(120, 600, 1)
    limits = [HOUR, HOUR, 600]
    assert replayed(*jobs, policy=QueuePolicy.FIFO, limits=limits).runs[-1].wait_s == 2 * HOUR - 120
    assert {run.gpus: run.wait_s for run in replayed(*jobs, limits=limits).runs} == {8: 0, 1: 0, 16: HOUR - 60}


def test_free_gpus_beside_a_job_count_as_scattered():
    outcome = replayed(job(0, HOUR, 6), job(HOUR, HOUR, 1))
    assert (outcome.used, outcome.scattered) == (6 / 16, 2 / 16)


def test_what_is_larger_than_the_cluster_is_counted_and_left_out():
    outcome = replayed(job(0, HOUR, 17), job(0, HOUR, 16))
    assert (outcome.refused, len(outcome.runs)) == (1, 1)
