"""Which nodes are fit for a job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from services.diagnoser.domain.facts import Floors
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.verdict import conclude, judge
from shared.agent_facts import Gpu
from shared.events import MAX_EVENT_BYTES, Event, NodeFinding, encode
from tests.support.probes import measurement


def problems(devices=(), asked=1_000_000, answered=1_000_000, **changes) -> tuple[str, ...]:
    return judge("n-1", Reading(measurement(**changes), asked, answered), devices, Floors()).problems


def test_a_sound_node_has_no_problem_and_its_figures_are_told():
    finding = judge("n-1", Reading(measurement(), 1_000_000, 1_000_000), (), Floors())
    assert finding.problems == ()
    assert finding.figures["gemmMs"] == 200.0


def test_a_missing_answer_is_a_result():
    assert judge("n-1", None, (), Floors()).problems == ("its agent gave no measurement in time",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"checksums": {"48167b6c": (0,), "deadbeef": (1,)}},
            "CPU 1 computed wrong: checksum deadbeef instead of 48167b6c",
        ),
        ({"checksums": {"48167b6c": (0,)}}, "CPU 1 did not finish the matrix multiplication"),
        ({"cpus": (), "checksums": {}}, "CPU none did not finish the matrix multiplication"),
        ({"gemm_ms": 31_000.0}, "the matrix multiplication took 31000 ms; at most 30000 ms are allowed"),
        ({"disk_free_bytes": 0}, "0B on the platform's disk are free; at least 256Mi are needed"),
        ({"shm_free_bytes": 1 << 20}, "1Mi in /dev/shm are free; at least 16Mi are needed"),
        ({"memory_free_bytes": 1 << 20}, "1Mi of memory are free; at least 64Mi are needed"),
        ({"open_files": 256}, "a process may open 256 files; at least 1024 are needed"),
        ({"read_only": ("/mnt/data",)}, "/mnt/data cannot be written"),
        ({"unreachable": ("/mnt/set",)}, "/mnt/set cannot be read"),
        ({"resolves": False}, "its own name has no address"),
        ({"unresolved": ("nats.example",)}, "the name nats.example has no address there"),
        ({"devices": ("GPU-1",)}, "the driver does not list GPU-1"),
        (
            {"devices": ("GPU-1",), "gpus": (Gpu("GPU-1", "H200", 3), Gpu("GPU-2", "H200", 9))},
            "GPU-1 has 3 uncorrected memory errors",
        ),
    ],
)
def test_each_figure_is_judged_by_itself(changes, problem):
    assert problems(**changes) == (problem,)


def test_a_clock_is_wrong_where_it_is_outside_of_question_and_answer():
    assert problems(asked=900_000, answered=1_100_000) == ()
    assert problems(asked=1_010_000, answered=1_020_000) == (
        "its clock is off by 15.0 s (behind, known to 5 s); at most 1 s are allowed",
    )
    assert problems(asked=980_000, answered=990_000) == (
        "its clock is off by 15.0 s (ahead, known to 5 s); at most 1 s are allowed",
    )


def test_the_outcome_names_every_bad_node_and_why():
    outcome = conclude([NodeFinding(node="n-2", problems=("a", "b")), NodeFinding(node="n-1")], {"n-2": "vm-2"})
    assert (outcome.passed, outcome.bad_nodes, outcome.message) == (False, ("n-2",), "vm-2: a, b")
    assert [finding.node for finding in outcome.findings] == ["n-1", "n-2"]


def test_nodes_that_are_all_well_pass():
    outcome = conclude([NodeFinding(node="n-1")], {})
    assert (outcome.passed, outcome.bad_nodes, outcome.message) == (True, (), "")


def test_nodes_that_were_not_tested_are_told_and_fail_nothing():
    excused = NodeFinding(node="n-1", untested="its tests were broken off: a pod came", verdict="green")
    outcome = conclude([excused, NodeFinding(node="n-2")], {"n-1": "vm-1"})
    assert (outcome.passed, outcome.untested_nodes) == (True, ("n-1",))
    assert outcome.message == "vm-1 was not tested: its tests were broken off: a pod came"


def test_a_long_list_is_cut():
    outcome = conclude([NodeFinding(node=f"n-{number:03}", problems=("bad",)) for number in range(30)], {})
    assert len(outcome.bad_nodes) == 30
    assert outcome.message.endswith("; and 10 more nodes")


def test_the_outcome_of_thousands_of_nodes_fits_one_event_and_tells_of_all_that_are_not_green() -> None:
    figures = {f"figure{number}": 123456.7 for number in range(14)}
    sound = [NodeFinding(node=f"n-{number:05}", figures=figures, verdict="green") for number in range(3000)]
    bad = [NodeFinding(node=f"n-{number:05}", problems=("slow",), verdict="amber") for number in range(9000, 9020)]
    doubtful = NodeFinding(node="n-99999", doubts=("a test failed",), verdict="amber")
    outcome = conclude([*sound, *bad, doubtful], {})
    event = Event.of(outcome, job="tj-a", attempt=1, time=datetime(2026, 1, 1, tzinfo=UTC), owner="u", project="p")
    assert len(encode(event)) < MAX_EVENT_BYTES
    assert (outcome.node_count, outcome.passed, outcome.doubtful_nodes) == (3021, False, ("n-99999",))
    assert {finding.node for finding in bad} | {"n-99999"} < {finding.node for finding in outcome.findings}
