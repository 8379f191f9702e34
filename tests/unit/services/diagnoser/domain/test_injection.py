"""How pretended faults are written, and what is said of those that are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.diagnoser.domain import injection
from services.diagnoser.domain.injection import NoSuchDeviceError, check_devices, read_injections
from shared.errors import InvalidInputError

IDS = {"gpu-node-1": "n-1", "gpu-node-2": "n-2", "n-1": "n-1", "n-2": "n-2"}


def refusals(*texts: str, ids: dict[str, str] = IDS) -> dict[str, str]:
    """What is said of each text, by its place."""
    with pytest.raises(InvalidInputError) as refused:
        read_injections(texts, ids)
    return {violation.pointer: violation.message for violation in refused.value.violations}


def test_a_link_of_nodes_whose_names_have_dashes_is_cut_where_two_nodes_come_out() -> None:
    (fault,) = read_injections(["slow-link:gpu-node-1-gpu-node-2:0.3"], IDS)
    assert (fault.kind, fault.nodes, fault.amount) == ("slow-link", ("n-1", "n-2"), 0.3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no fault ''; there are slow-link"),
        ("meteor:n-1", "there is no fault 'meteor'; there are slow-link, damaged-link, flaky"),
        ("flaky", "write it as flaky:NODE:PART"),
        ("flaky:n-1", "write it as flaky:NODE:PART"),
        ("flaky:n-1:0.5:0.5", "write it as flaky:NODE:PART"),
        ("flaky:n-1:", "write it as flaky:NODE:PART"),
        ("corrupt-gemm:n-1:", "write it as corrupt-gemm:NODE:DEVICE"),
        ("flaky:n-9:0.5", "node 'n-9' is not diagnosed; there are gpu-node-1"),
        ("flaky:n-1:often", "'often' is no number"),
        ("flaky:n-1:nan", "'nan' is no number"),
        ("flaky:n-1:2", "2 is no part; give a number over 0 and up to 1"),
        ("slow-device:n-1:cpu-0:0", "0 is no part; give a number over 0 and up to 1"),
        ("slow-link:n-1-n-9:0.5", "'n-1-n-9' are no two nodes of this diagnosis with a dash between"),
        ("slow-link:n-1-gpu-node-1:0.5", "'n-1-gpu-node-1' are no two nodes of this diagnosis"),
        ("damaged-link:n-1", "'n-1' are no two nodes of this diagnosis"),
        ("read-only:n-1:data", "'data' is no absolute path; give the directory from the root, such as /data"),
        ("unreachable:n-1:./data", "'./data' is no absolute path"),
        ("clock-skew:n-1:inf", "'inf' is no number"),
        ("clock-skew:n-1:-86401", "-86401 s are too many; give up to a day"),
    ],
)
def test_what_cannot_be_pretended_is_refused_with_what_would_be_right(text: str, said: str) -> None:
    assert said in refusals(text)["/inject/0"]


def test_all_mistakes_are_told_at_once_each_with_its_place() -> None:
    said = refusals("meteor:n-1", "silent:n-1", "flaky:n-1:2")
    assert list(said) == ["/inject/0", "/inject/2"]


def test_a_link_that_could_be_cut_in_two_ways_is_not_guessed() -> None:
    ids = {"a": "n-1", "b-c": "n-2", "a-b": "n-3", "c": "n-4"}
    assert "several ways; give their ids" in refusals("slow-link:a-b-c:0.5", ids=ids)["/inject/0"]


@pytest.mark.parametrize("text", ["flaky:n-1:0.5", "wrong-collective:n-1"])
def test_what_shows_between_nodes_only_is_refused_for_one_node(text: str) -> None:
    assert "name more nodes" in refusals(text, ids={"n-1": "n-1", "vm-1": "n-1"})["/inject/0"]


def test_a_device_that_its_node_does_not_have_is_refused_with_those_that_it_has() -> None:
    faults = read_injections(["missing-device:n-1:GPU-7", "silent:n-1", "slow-device:n-2:cpu-0:0.5"], IDS)
    check_devices(faults, {"n-2": ["cpu-0"]})
    with pytest.raises(NoSuchDeviceError) as refused:
        check_devices(faults, {"n-1": ["cpu-1", "cpu-0"], "n-2": ["cpu-0"]})
    assert refused.value.message == "'missing-device:n-1:GPU-7': the node has no device 'GPU-7'; it has cpu-0, cpu-1"


def test_memory_errors_are_refused_of_a_cpu_since_only_the_driver_of_a_gpu_tells_of_them() -> None:
    faults = read_injections(["memory-errors:n-1:cpu-0", "memory-errors:n-2:GPU-7"], IDS)
    with pytest.raises(NoSuchDeviceError) as refused:
        check_devices(faults, {"n-1": ["cpu-0"], "n-2": ["cpu-0", "GPU-7"]})
    assert refused.value.message == "'memory-errors:n-1:cpu-0': the node has no GPU 'cpu-0'; it has none"


def test_the_manual_lists_the_faults_that_there_are() -> None:
    written = set(re.findall(r"^\| `([a-z-]+)[:`]", (injection.__doc__ or ""), re.MULTILINE))
    manual = (Path(__file__).parents[5] / "docs" / "diagnosis.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)[:`]", manual.partition("| fault |")[2], re.MULTILINE))
    assert written == documented == set(injection._EXAMPLES)
