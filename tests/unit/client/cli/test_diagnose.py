"""`trainmaster diagnose`: which nodes it asks for, how it waits, and what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json
from tests.support.job_documents import attempt_document, job_document
from trainmaster.errors import ExitCode

Command = Callable[..., Any]


def node(number: int, *pools: str) -> dict[str, Any]:
    return {"metadata": {"id": f"n-{number}", "name": f"vm-{number}"}, "status": {"pools": list(pools)}}


OPEN_FILES = {"name": "open files", "value": 4096.0, "unit": "", "floor": 1024.0, "why": ""}


def part(number: int, verdict: str = "green", *problems: str) -> dict[str, Any]:
    figure = {
        "name": "multiplication",
        "device": "cpu-0",
        "value": 90.5,
        "unit": "ms",
        "median": 90.0,
        "percentile": 60.0,
    }
    return {
        "node": f"n-{number}",
        "name": f"vm-{number}",
        "verdict": verdict,
        "tested": True,
        "problems": list(problems),
        "doubts": [],
        "facts": [{**OPEN_FILES, "value": 256.0, "why": "too few"} if problems else OPEN_FILES],
        "figures": [
            {**figure, "percentile": 60.0, "against": "7 others of this run", "floor": 120.0, "lessIsBetter": True}
        ],
    }


def pair(first: int, second: int, bandwidth: float | None) -> dict[str, Any]:
    judged = {"floorMbS": 500.0, "medianMbS": 950.0, "percentile": 40.0, "against": "5 others of this run"}
    tested = {
        "bandwidthMbS": bandwidth,
        "latencyUs": 50.0,
        "verdict": "green",
        "tests": 2,
        "failed": int(not bandwidth),
    }
    return {"first": f"n-{first}", "second": f"n-{second}", "transport": "gloo", **tested, **judged}


BUILT = {"transport": "gloo", "without": "PyTorch was built without CUDA"}
BEGUN = {"id": "dg-1", "state": "running", "budgetS": 4.2, "mostS": 30.0}
REPORT = {
    "id": "dg-1",
    "state": "finished",
    "tookS": 3.25,
    "injected": ["flaky:vm-3:1"],
    "nodes": [part(1), part(2), part(3, "red", "tests with n-1 failed"), part(4)],
    "pairs": [pair(1, 2, 1000.0), pair(1, 3, None), pair(2, 3, 600.0)],
}


@pytest.fixture
def platform(api: FakePlatform) -> FakePlatform:
    nodes = [node(1, "public"), node(2, "public"), node(3), node(4, "team-a")]
    api.on("GET", "/v1/nodes", of_json({"items": nodes}))
    api.on("POST", "/v1/diagnoses", of_json(BEGUN, 202))
    api.on("GET", "/v1/diagnoses/dg-1", of_json(BEGUN), of_json(REPORT))
    return api


def asked(api: FakePlatform) -> Any:
    return next(request.json for request in api.requests if request.method == "POST")


def test_pools_and_nodes_become_the_nodes_that_they_mean_each_once(command: Command, platform: FakePlatform) -> None:
    command("diagnose", "public", "vm-2", "n-3", "--inject", "flaky:vm-3:1", "--keep-passes")
    assert asked(platform) == {"nodes": ["n-1", "n-2", "n-3"], "inject": ["flaky:vm-3:1"], "thorough": False}


def test_an_instance_type_and_the_level_of_deep_tests_are_asked_for(command: Command, platform: FakePlatform) -> None:
    command("diagnose", "vm-2", "--instance-type", "gpu-h200-8", "--deep", "2")
    assert asked(platform) == {
        "nodes": ["n-2"],
        "inject": [],
        "thorough": True,
        "instanceType": "gpu-h200-8",
        "deep": 2,
    }


def test_the_time_is_told_before_and_the_report_is_shown_after(command: Command, platform: FakePlatform) -> None:
    outcome = command("diagnose", "public")
    assert outcome.code == ExitCode.NODE_NOT_GREEN
    assert "2 nodes: about 4 s, at most 30 s where there are suspects" in outcome.err
    assert "faults were pretended: flaky:vm-3:1" in outcome.out
    lines = outcome.out.splitlines()
    assert any(line.split()[:3] == ["vm-3", "red", "yes"] and "tests with n-1 failed" in line for line in lines)
    figures = (line.split()[:9] for line in lines)
    assert ["vm-1", "cpu-0", "multiplication", "90.5", "ms", "≤", "120", "ms", "90"] in figures


def test_facts_stand_under_their_limits_and_pairs_beside_what_they_were_judged_by(
    command: Command, platform: FakePlatform
) -> None:
    lines = command("diagnose", "public").out.splitlines()
    facts = [line.split() for line in lines[lines.index("Facts") + 1 :][:2]]
    assert facts == [
        ["FACT", "LIMIT", "vm-1", "vm-2", "vm-3", "vm-4"],
        ["open", "files", "≥", "1024", "4096", "4096", "256", "4096"],
    ]
    pair = next(line for line in lines if line.startswith("vm-1 – vm-2")).split()
    assert pair[3:] == [
        *("gloo", "1000", "MB/s", "50", "µs", "≥", "500", "MB/s", "950", "40"),
        *("5", "others", "of", "this", "run", "-", "0", "of", "2", "green", "-"),
    ]


def test_a_pair_without_a_result_has_no_units(command: Command, platform: FakePlatform) -> None:
    failed = {**pair(1, 3, None), "latencyUs": None}
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "pairs": [failed]}))
    lines = command("diagnose", "public").out.splitlines()
    assert next(line for line in lines if line.startswith("vm-1 – vm-3")).split()[3:6] == ["gloo", "-", "-"]


def test_of_thousands_of_figures_those_with_something_wrong_are_shown(command: Command, platform: FakePlatform) -> None:
    bad = part(300)
    bad["figures"][0]["why"] = "it is slow"
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "nodes": [*map(part, range(1, 300)), bad]}))
    lines = command("diagnose", "public").out.splitlines()
    figures = lines[lines.index("Figures") + 2 :]
    assert figures[0].startswith("vm-300 ")
    assert figures[200] == "and 100 more; trainmaster diagnose --report dg-1 -o json has all"


def test_of_many_nodes_facts_show_how_far_apart_they_are_and_who_breaks_a_limit(
    command: Command, platform: FakePlatform
) -> None:
    nodes = [part(10, "amber", "too few files"), *map(part, range(1, 10))]
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "nodes": nodes, "pairs": []}))
    lines = command("diagnose", "public").out.splitlines()
    facts = lines[lines.index("Facts") + 2].split()
    assert facts == ["open", "files", "≥", "1024", "256", "4096", "4096", "vm-10"]
    names = [line.split()[0] for line in lines if line.startswith("vm-") and "cpu-0" in line]
    assert names == [f"vm-{number}" for number in range(1, 11)]


def test_a_report_on_record_is_shown_by_its_id_and_by_the_job(command: Command, platform: FakePlatform) -> None:
    platform.on("GET", "/v1/diagnoses/dg-1", of_json(REPORT))
    assert "diagnosis dg-1: finished after 3.2 s" in command("diagnose", "--report", "dg-1").out
    diagnosis = {"requestedAt": "2026-01-02T12:00:01Z", "passed": True, "badNodes": [], "nodes": []}
    attempt = attempt_document() | {"diagnosis": diagnosis, "replaced": [{"at": None, "left": [], "taken": []}]}
    job = job_document(attempts=[attempt])
    platform.on("GET", "/v1/jobs/mnist", of_json(job))
    platform.on("GET", f"/v1/diagnoses/{job['metadata']['id']}-1-r2", of_json(REPORT))
    assert command("diagnose", "--report", "mnist", "-o", "json").json == REPORT
    assert not [request for request in platform.requests if request.method == "POST"]


def test_a_job_that_was_not_diagnosed_has_no_report(command: Command, platform: FakePlatform) -> None:
    platform.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    outcome = command("diagnose", "--report", "mnist")
    assert outcome.code == ExitCode.INVALID
    assert "there is no report of a diagnosis" in outcome.err


def test_reports_on_record_are_listed(command: Command, platform: FakePlatform) -> None:
    times = {"requestedAt": "2026-01-02T12:00:01Z", "began": "2026-01-02T12:05:00Z"}
    listed = {"id": "dg-1", "by": "ada", "state": "finished", **times, "nodeCount": 4, "tookS": 3.25}
    of_job = {"id": "tj-a-1", "by": "", "state": "finished", "began": "2026-01-02T11:00:00Z", "nodeCount": 1}
    items = [{**listed, "injected": ["silent:vm-1"]}, of_job]
    platform.on("GET", "/v1/diagnoses", of_json({"items": items, "next": None}))
    _, line, other = command("diagnose", "--list").out.splitlines()
    assert line.split() == ["dg-1", "2026-01-02", "12:00:01Z", "ada", "finished", "4", "3.2", "s", "silent:vm-1"]
    assert other.split() == ["tj-a-1", "2026-01-02", "11:00:00Z", "a", "job", "finished", "1", "-", "-"]


def test_a_diagnosis_without_a_report_shows_no_empty_table(command: Command, platform: FakePlatform) -> None:
    failed = {**BEGUN, "state": "failed", "message": "jobs got nodes of it"}
    platform.on("GET", "/v1/diagnoses/dg-1", of_json(failed))
    assert command("diagnose", "public").out.splitlines() == ["diagnosis dg-1: failed", "jobs got nodes of it"]


def test_nodes_that_jobs_hold_are_told_by_name(command: Command, platform: FakePlatform) -> None:
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "inUse": ["n-4", "n-1", "n-9"]}))
    assert "in use by jobs, and only looked at: n-9, vm-1, vm-4" in command("diagnose", "public").out


def test_nodes_that_were_tested_without_pytorch_are_told(command: Command, platform: FakePlatform) -> None:
    about = {"transport": "tcp", "without": "/usr/bin/python3 has no PyTorch"}
    nodes = [{**part(1), "about": about}, {**part(2), "about": BUILT}, {**part(3), "about": about}]
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "nodes": nodes}))
    out = command("diagnose", "public").out
    assert "tested over TCP, devices not at all: vm-1, vm-3 (/usr/bin/python3 has no PyTorch)" in out
    assert "GPUs were only looked at: vm-2 (PyTorch was built without CUDA)" in out


def test_the_heat_map_shades_pairs_by_the_best_one(command: Command, platform: FakePlatform) -> None:
    lines = command("diagnose", "public").out.splitlines()
    (first, second, third) = (next(line for line in reversed(lines) if line.startswith(f"vm-{n} ")) for n in (1, 2, 3))
    assert first.rstrip() == "vm-1   ██××"
    assert second.rstrip() == "vm-2 ██  ░░"
    assert third.rstrip() == "vm-3 ××░░"


def test_the_heat_map_is_written_as_svg(command: Command, platform: FakePlatform, tmp_path: Path) -> None:
    command("diagnose", "public", "--svg", str(tmp_path / "pairs.svg"))
    drawn = ET.parse(tmp_path / "pairs.svg").getroot()  # noqa: S314  # our own
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert "vm-1 and vm-2: 1000 MB/s" in titles
    assert "vm-3 and vm-1: failed" in titles
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "faults were pretended: flaky:vm-3:1" in texts


def test_a_heat_map_that_cannot_be_drawn_or_written_is_one_error(
    command: Command, platform: FakePlatform, tmp_path: Path
) -> None:
    (tmp_path / "taken.svg").symlink_to(tmp_path / "none" / "pairs.svg")
    outcome = command("diagnose", "public", "--svg", str(tmp_path / "taken.svg"))
    assert (outcome.code, "cannot be written: No such file" in outcome.err) == (ExitCode.INVALID, True)
    assert "diagnosis dg-1: finished" in outcome.out
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "pairs": []}))
    outcome = command("diagnose", "vm-1", "--svg", str(tmp_path / "pairs.svg"))
    assert (outcome.code, "no pair of nodes was tested" in outcome.err) == (ExitCode.INVALID, True)
    assert "diagnosis dg-1: finished" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("public", "--svg", "none/pairs.svg"), "none/pairs.svg cannot be written: there is no directory none"),
        (("--list", "--svg", "pairs.svg"), "--svg draws one report"),
        (("--list", "--inject", "silent:a"), "are of a new diagnosis; name its nodes"),
        (("--report", "dg-1", "--deep", "1"), "are of a new diagnosis; name its nodes"),
        (("--follow", "dg-1", "--keep-passes"), "are of a new diagnosis; name its nodes"),
        (("--report", "dg-1", "--instance-type", "gpu-h200-8"), "are of a new diagnosis; name its nodes"),
    ],
)
def test_options_that_could_do_nothing_are_refused_before_any_test(
    command: Command, platform: FakePlatform, arguments: tuple[str, ...], said: str
) -> None:
    outcome = command("diagnose", *arguments)
    assert (outcome.code, said in outcome.err) == (ExitCode.INVALID, True)
    assert not platform.requests


def test_where_all_is_green_the_exit_code_is_zero(command: Command, platform: FakePlatform) -> None:
    green = {**REPORT, "nodes": [part(1), part(2)]}
    platform.on("GET", "/v1/diagnoses/dg-1", of_json(green))
    assert command("diagnose", "vm-1", "-o", "json").json == green
    assert command("diagnose", "vm-1").code == 0


def test_where_a_node_could_not_be_tested_the_exit_code_and_the_page_tell(
    command: Command, platform: FakePlatform
) -> None:
    untested = {**part(2), "tested": False, "untested": "a job was on it already"}
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "nodes": [part(1), untested]}))
    shown = command("diagnose", "vm-1")
    assert shown.code == ExitCode.NODE_NOT_TESTED
    assert "not tested: a job was on it already" in shown.out
    platform.on("GET", "/v1/diagnoses/dg-1", of_json({**REPORT, "nodes": [part(1, "red", "slow"), untested]}))
    assert command("diagnose", "vm-1").code == ExitCode.NODE_NOT_GREEN


def test_a_diagnosis_that_was_begun_before_is_followed_again_over_a_restart(
    command: Command, platform: FakePlatform
) -> None:
    away = of_json({"status": 503, "code": "unavailable", "title": "away", "detail": "starting"}, 503)
    queued = of_json({**BEGUN, "state": "queued"})
    platform.on("GET", "/v1/diagnoses/dg-1", queued, *[away] * 8, of_json(BEGUN), of_json(REPORT))
    outcome = command("diagnose", "--follow", "dg-1")
    assert outcome.code == ExitCode.NODE_NOT_GREEN
    assert "diagnosis dg-1: finished" in outcome.out
    assert not [request for request in platform.requests if request.method == "POST"]


def test_a_diagnosis_is_cancelled(command: Command, platform: FakePlatform) -> None:
    cancelled = {**BEGUN, "state": "cancelled", "message": "cancelled by ada"}
    platform.on("DELETE", "/v1/diagnoses/dg-1", of_json(cancelled))
    outcome = command("diagnose", "--cancel", "dg-1")
    assert (outcome.code, outcome.out) == (0, "diagnosis dg-1: cancelled by ada\n")


@pytest.mark.parametrize(
    "arguments",
    [(), ("public", "--cancel", "dg-1"), ("public", "--follow", "dg-1"), ("--list", "--report", "dg-1")],
)
def test_either_nodes_or_a_diagnosis_are_named(command: Command, arguments: tuple[str, ...]) -> None:
    outcome = command("diagnose", *arguments)
    assert outcome.code == ExitCode.INVALID
    assert "name nodes and pools" in outcome.err


def test_a_name_that_means_nothing_is_refused_before_any_test(command: Command, platform: FakePlatform) -> None:
    outcome = command("diagnose", "vm-9")
    assert outcome.code == ExitCode.INVALID
    assert "there is no node and no pool with nodes called 'vm-9'" in outcome.err
    assert not [request for request in platform.requests if request.method == "POST"]
