"""Deep tests through a command that answers like NVIDIA's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from services.agent.deep import DeepTests, answer_of_report, numbers_of
from services.agent.grounds import Grounds, WholeMachine
from shared.diagnosis_wire import TestAnswer, TestRequest
from tests.support.grounds import Taken

DISCOVERY = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:1B:00.0                                         |
|        | Device UUID: GPU-1b1b1b1b-0000-0000-0000-000000000000                |
+--------+----------------------------------------------------------------------+
| 1      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:43:00.0                                         |
|        | Device UUID: GPU-43434343-0000-0000-0000-000000000000                |
+--------+----------------------------------------------------------------------+
"""
FIRST, SECOND = "GPU-1b1b1b1b-0000-0000-0000-000000000000", "GPU-43434343-0000-0000-0000-000000000000"


def report(*results: dict[str, object], name: str = "GPU Memory", root: str = "DCGM Diagnostic") -> str:
    tests = [{"name": name, "results": list(results)}]
    return json.dumps({root: {"test_categories": [{"category": "Hardware", "tests": tests}]}, "version": "4.2"})


def told(answer: TestAnswer) -> dict[str, str]:
    return {device: result.problem for device, result in answer.devices.items()}


def test_dcgms_numbers_of_devices_are_read_from_its_list() -> None:
    assert numbers_of(DISCOVERY) == {FIRST: 0, SECOND: 1}


@pytest.mark.parametrize(
    ("results", "problems"),
    [
        ([{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}], {FIRST: "", SECOND: ""}),
        (
            [{"entity_id": 1, "status": "Fail", "warnings": [{"warning": "a page is bad", "error_id": 3}]}],
            {FIRST: "", SECOND: "DCGM: GPU Memory failed (a page is bad)"},
        ),
        (
            [{"gpu_ids": "0,1", "status": "Fail", "warnings": "no persistence mode"}],
            dict.fromkeys((FIRST, SECOND), "DCGM: GPU Memory failed (no persistence mode)"),
        ),
        ([{"status": "FAIL"}], dict.fromkeys((FIRST, SECOND), "DCGM: GPU Memory failed")),
        ([{"gpu_id": "0", "status": "Skip"}], {FIRST: "", SECOND: ""}),
    ],
)
def test_reports_of_both_shapes_say_which_device_failed_and_why(
    results: list[dict[str, object]], problems: dict[str, str]
) -> None:
    devices = {"0": FIRST, "1": SECOND}
    assert told(answer_of_report(report(*results), devices)) == problems
    old = report(*results, root="DCGM GPU Diagnostic")
    assert told(answer_of_report(f"Successfully ran diagnostic.\n{old}", devices)) == problems


def test_what_is_no_report_is_a_problem() -> None:
    assert answer_of_report("Error: unable to connect", {"0": FIRST}).problem == (
        "DCGM gave no report: Error: unable to connect"
    )


def dcgmi(tmp_path: Path, diag: str, grounds: Grounds | None = None) -> DeepTests:
    """A command that lists two devices, and does `diag` in the shell for the tests."""
    (tmp_path / "list").write_text(DISCOVERY)
    command = tmp_path / "dcgmi"
    command.write_text(
        f'#!/bin/sh\ncase "$1" in discovery) cat {tmp_path}/list;; *) echo "$@" > {tmp_path}/asked; {diag};; esac\n'
    )
    command.chmod(0o755)
    return DeepTests(grounds or WholeMachine(), lambda _name: str(command))


def request(level: int = 2, limit_s: float = 45.0, device: str = SECOND) -> TestRequest:
    return TestRequest("dg-1", "n-1", "deep", limit_s, devices=(device,), level=level)


async def test_only_the_devices_of_the_node_are_tested(tmp_path: Path) -> None:
    answer = report({"entity_id": 1, "status": "Fail", "warnings": []})
    (tmp_path / "report").write_text(answer)
    deep = dcgmi(tmp_path, f"cat {tmp_path}/report; exit 226")
    assert told(await deep.answer(request())) == {SECOND: "DCGM: GPU Memory failed"}
    assert (tmp_path / "asked").read_text().split() == ["diag", "-r", "2", "-j", "-i", "1"]


async def test_level_nought_asks_whether_it_is_there(tmp_path: Path) -> None:
    assert (await dcgmi(tmp_path, "exit 1").answer(request(level=0))).about == {"dcgmi": str(tmp_path / "dcgmi")}


async def test_a_device_that_dcgm_does_not_list_is_a_problem(tmp_path: Path) -> None:
    answer = await dcgmi(tmp_path, "exit 1").answer(request(device="GPU-9"))
    assert answer.problem == "DCGM does not list GPU-9"


async def test_tests_that_take_too_long_or_are_cancelled_are_asked_to_end(tmp_path: Path) -> None:
    deep = dcgmi(
        tmp_path, f"trap 'touch {tmp_path}/ended; exit' INT; touch {tmp_path}/begun; while :; do sleep 0.05; done"
    )
    assert "longer than 1 s" in (await deep.answer(request(limit_s=1))).problem
    assert (tmp_path / "ended").exists()
    (tmp_path / "ended").unlink()
    (tmp_path / "begun").unlink()
    asked = asyncio.create_task(deep.answer(request()))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    await deep.cancel("dg-1")
    assert "DCGM gave no report" in (await asked).problem
    assert (tmp_path / "ended").exists()


async def test_tests_on_gpus_that_others_come_to_need_are_ended_and_the_node_is_excused(tmp_path: Path) -> None:
    grounds = Taken()
    deep = dcgmi(tmp_path, f"touch {tmp_path}/begun; exec sleep 60", grounds)
    asked = asyncio.create_task(deep.answer(request()))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    await deep.withdraw()
    assert not asked.done()
    grounds.why = "pod ns/x may get any GPU of the node"
    while not asked.done():
        await deep.withdraw()
        await asyncio.sleep(0.01)
    assert await asked == await deep.answer(request()) == TestAnswer(excuse=grounds.why)
