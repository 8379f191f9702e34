"""What facts of GPUs, ports and the kernel's log say of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.diagnoser.domain.hardware import broken_devices, facts_of_hardware, odd_ones, of_the_moment
from shared.agent_facts import Complaint, Gpu, Port
from tests.support.probes import measurement

SOUND = Gpu(
    id="GPU-a", name="NVIDIA H200", bus="00000000:cb:00.0", uncorrected_errors=0, remap_failed=False, bus_width=16,
    bus_width_max=16, links=18, links_up=18, fabric="completed",
)  # fmt: skip
PORT = Port("mlx5_0/1", "InfiniBand", "ACTIVE", "LinkUp", 400.0, grown_s=3600.0)
SXID = Complaint("sxid", "0000:c1:00.0", 12028, 60.0, "Fatal, Link 44")
XID = Complaint("xid", "0000:cb:00", 79, 60.0, "GPU has fallen off the bus.")


def broken(gpu: Gpu = SOUND, *complaints: Complaint, **more: Any) -> list[str]:
    other = replace(SOUND, id="GPU-b", bus="00000000:cc:00.0")
    return list(broken_devices(measurement(gpus=(gpu, other), complaints=complaints, **more), ("GPU-a", "GPU-b")))


def now(gpu: Gpu = SOUND, *, idle: bool = True, **more: Any) -> list[str]:
    return list(of_the_moment(measurement(gpus=(gpu,), **more), ("GPU-a",), idle=idle))


def test_sound_gpus_and_ports_have_no_problem() -> None:
    assert broken() == []
    assert now(ports=(PORT,), limits={"locked_bytes": -1, "processes": 4096}) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"uncorrected_errors": 3}, "GPU-a has 3 uncorrected memory errors"),
        ({"remap_failed": True}, "GPU-a has rows of memory that could not be replaced"),
        ({"bus_width": 8}, "GPU-a has 8 of 16 lanes of PCIe"),
        ({"links_up": 17}, "GPU-a has 17 of 18 NVLinks up"),
        ({"links_up": 0}, "GPU-a has 0 of 18 NVLinks up"),
        (
            {"fabric": "state 2, status 0"},
            "GPU-a is not part of the fabric of NVSwitches (state 2, status 0)",
        ),
    ],
)
def test_what_is_broken_of_a_gpu_is_told(changes: dict[str, Any], words: str) -> None:
    (problem,) = broken(replace(SOUND, **changes))
    assert problem.startswith(words)


def test_a_gpu_that_is_not_there_is_told_with_what_the_driver_said() -> None:
    found = list(broken_devices(measurement(gpus_unknown="the driver did not answer within 8 s"), ("GPU-a",)))
    assert found == ["the driver does not list GPU-a (the driver did not answer within 8 s)"]


def test_nvlinks_that_no_gpu_of_the_node_has_up_are_not_missed() -> None:
    alone = replace(SOUND, links_up=0)
    assert list(broken_devices(measurement(gpus=(alone,)), ("GPU-a",))) == []


@pytest.mark.parametrize(
    ("complaint", "problems"),
    [
        (XID, ["GPU-a gave Xid 79 0.0 h ago: GPU has fallen off the bus."]),
        (replace(XID, number=31), []),
        (replace(XID, age_s=90_000.0), []),
        (replace(XID, bus="0000:17:00"), []),
        (
            Complaint("sxid", "0000:c1:00.0", 12028, 60.0, "Fatal, Link 44"),
            ["the NVSwitch 0000:c1:00.0 gave SXid 12028: Fatal, Link 44"],
        ),
        (Complaint("sxid", "0000:c1:00.0", 20034, 60.0, "Non-fatal, Link 44"), []),
    ],
)
def test_complaints_count_that_blame_this_device_and_are_of_today(complaint: Complaint, problems: list[str]) -> None:
    assert broken(SOUND, complaint) == problems


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"slowed_by": ("hardware thermal slowdown",)}, "GPU-a is slowed by: hardware thermal slowdown"),
        ({"remap_pending": True}, "GPU-a must be reset, so that rows of its memory are replaced"),
        ({"processes": {"4711": "python"}}, "GPU-a is used by processes of somebody else: 4711 (python)"),
    ],
)
def test_what_is_wrong_with_a_gpu_now_is_told(changes: dict[str, Any], words: str) -> None:
    assert now(replace(SOUND, **changes)) == [words]


def test_where_others_work_their_processes_are_nothing_wrong() -> None:
    assert now(replace(SOUND, processes={"4711": "python"}), idle=False) == []


@pytest.mark.parametrize(
    ("port", "problems"),
    [
        (replace(PORT, state="INIT"), ["port mlx5_0/1 is INIT, and not ACTIVE"]),
        (replace(PORT, state="DOWN", physical="Polling"), []),
        (replace(PORT, grown={"symbol_error": 111}), ["port mlx5_0/1 counted 111 symbol_error in 3600 s"]),
        (replace(PORT, grown={"symbol_error": 110}), []),
        (replace(PORT, grown={"link_downed": 1}), ["port mlx5_0/1 counted 1 link_downed in 3600 s"]),
        (replace(PORT, grown={"out_of_sequence": 5000}), []),
    ],
)
def test_ports_are_judged_by_their_state_and_by_how_fast_errors_come(port: Port, problems: list[str]) -> None:
    assert now(ports=(port,)) == problems


def test_limits_that_are_too_low_are_told() -> None:
    problems = now(ports=(PORT,), limits={"locked_bytes": 65536, "processes": 100})
    assert [problem.rpartition("(")[2] for problem in problems] == ["ulimit -l)", "ulimit -u)"]


def test_a_node_that_has_something_otherwise_than_most_is_told() -> None:
    usual = measurement(versions={"driver": "570.86.15", "cuda": "12.8"}, ports=(PORT,))
    slow = replace(usual, versions={"driver": "550.54.15", "cuda": "12.8"}, ports=(replace(PORT, gbit_s=100.0),))
    measured = {"n-1": usual, "n-2": slow, "n-3": usual}
    software = {"n-1": {"nccl": "2.27.5"}, "n-2": {"nccl": "2.27.5"}, "n-3": {"nccl": "2.21.5"}}
    assert odd_ones(measured, software) == {
        "n-2": [
            "its driver is 550.54.15, that of 2 others 570.86.15",
            "its port mlx5_0/1 is LinkUp at 100 Gb/s, that of 2 others LinkUp at 400 Gb/s",
        ],
        "n-3": ["its NCCL is 2.21.5, that of 2 others 2.27.5"],
    }
    assert odd_ones({"n-1": usual, "n-2": slow}, {}) == {}


def test_the_report_has_numbers_of_gpus_and_ports_and_what_they_should_be() -> None:
    port = replace(PORT, grown={"symbol_error": 2, "link_downed": 1})
    told = facts_of_hardware(measurement(gpus=(replace(SOUND, bus_width=8),), ports=(port,)))
    facts = {(fact.device, fact.name): (fact.value, fact.floor) for fact in told}
    assert facts["GPU-a", "lanes of PCIe"] == (8, 16)
    assert facts["GPU-a", "NVLinks up"] == (18, 18)
    assert ("GPU-a", "clock in MHz") not in facts
    assert facts["port mlx5_0/1", "speed, ACTIVE"] == (400.0, None)
    assert facts["port mlx5_0/1", "new errors"] == (3, None)
