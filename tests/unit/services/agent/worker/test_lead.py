"""The process that the agent starts for a diagnosis, seen from whoever started it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.agent.worker.lead import Means, interface_of, merged
from services.agent.workers import WORKER


@contextmanager
def started() -> Iterator[subprocess.Popen[str]]:
    """The process, without PyTorch, and with one rank."""
    command = [sys.executable, "-I", "-S", str(WORKER), "127.0.0.1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def ask(process: subprocess.Popen[str], **asked: Any) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"id": 7, "node": "n-1", "devices": [], "work_s": 0.1, **asked}) + "\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


def test_it_ends_with_all_that_it_forked_when_nobody_can_ask_any_more() -> None:
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": False}
        assert ask(process, test="begin")["about"]["transport"] == "tcp"
        (rank,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.stdin.close()
        assert process.wait() == 0
        assert not Path(f"/proc/{rank}").exists()


def test_a_node_that_is_dropped_has_its_question_answered() -> None:
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        nowhere = [{"node": node, "host": "127.0.0.1", "port": 1, "token": "x"} for node in ("n-1", "n-2")]
        process.stdin.write(json.dumps({"drop": "n-9"}) + "\n")
        answer = ask(process, test="gang", transport="tcp", peers=nowhere, round="r", ranks_each=1)
        assert "Connection refused" in answer["problem"]
        process.stdin.close()


@pytest.mark.parametrize(
    ("answers", "whole"),
    [
        (
            [
                {"figures": {"bandwidthMbS": 10.0, "latencyUs": 5.0}},
                {"figures": {"bandwidthMbS": 8.0, "latencyUs": 4.0}},
            ],
            {"figures": {"bandwidthMbS": 18.0, "latencyUs": 4.0}, "devices": {}, "rails": [10.0, 8.0]},
        ),
        (
            [{"figures": {"allReduceMbS": 10.0}}, {"figures": {"allReduceMbS": 8.0}}],
            {"figures": {"allReduceMbS": 8.0}, "devices": {}},
        ),
        ([{"devices": {"a": {}}}, {"problem": "b: no"}], {"figures": {}, "devices": {"a": {}}, "problem": "b: no"}),
    ],
)
def test_answers_of_ranks_become_one(answers: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    assert merged(answers) == whole


def test_the_interface_of_an_address_is_found() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.77") == ""


GPUS = ("GPU-a", "GPU-b")


@pytest.mark.parametrize(
    ("means", "devices", "transport", "without", "ranks"),
    [
        (Means(with_torch=True, with_gpus=True), GPUS, "nccl", None, list(GPUS)),
        (Means(with_torch=True, with_gpus=True), (), "gloo", None, ["cpu-0", "cpu-32"]),
        (Means(with_torch=True, with_gpus=False), GPUS, "gloo", "PyTorch was built without CUDA", ["cpu-0", "cpu-32"]),
        (Means(with_torch=False, with_gpus=False, without="no PyTorch"), GPUS, "tcp", "no PyTorch", ["cpu-0"]),
    ],
)
def test_what_a_node_is_tested_with_follows_from_its_devices_and_from_pytorch(
    monkeypatch: pytest.MonkeyPatch,
    means: Means,
    devices: tuple[str, ...],
    transport: str,
    without: str | None,
    ranks: list[str],
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(64)))
    about = means.about(devices)
    assert (about["transport"], about.get("without"), means.names(devices)) == (transport, without, ranks)
