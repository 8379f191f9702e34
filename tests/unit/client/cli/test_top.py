from __future__ import annotations

from tests.support.fake_platform import FakePlatform, of_json
from tests.unit.client.cli.conftest import Command
from trainmaster.rendering.resources import bars, size

USED = {
    "attempt": 1,
    "role": "worker",
    "index": 0,
    "latest": {
        "at": "2026-01-01T10:20:30.000Z",
        "cpuCores": 3.456,
        "memoryBytes": 3 << 29,
        "processes": 4,
        "gpus": [{"id": "GPU-1", "busyPercent": 93.4, "memoryBytes": 5 << 30}, {"id": "GPU-2", "memoryBytes": 0}],
    },
    "peak": {"cpuCores": 4.0, "memoryBytes": 2 << 30, "gpuMemoryBytes": 5 << 30},
    "history": {"cpuCores": [0.0, 1.0, 2.0]},
}


def test_each_replica_has_a_line(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/resources/mnist", of_json({"replicas": [USED]}))
    out = command("top", "mnist", "--attempt", "1").out
    for told in ("worker-0", "3.46", "1.5 GiB", "2.0 GiB", "93 % ?", "5.0 GiB 0 MiB"):
        assert told in out
    assert api.requests[0].query == {"attempt": ["1"], "history": ["true"]}


def test_json_is_the_answer(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/resources/mnist", of_json({"replicas": [USED]}))
    assert command("top", "mnist", "-o", "json").json == {"replicas": [USED]}


def test_a_job_that_was_not_sampled_is_no_error(command: Command, api: FakePlatform) -> None:
    api.on("GET", "/v1/resources/mnist", of_json({"replicas": []}))
    outcome = command("top", "mnist")
    assert (outcome.code, outcome.out) == (0, "")
    assert "not sampled so far" in outcome.err


def test_bars_show_the_course_in_little_room() -> None:
    assert bars([0.0, 1.0, 2.0]) == "▁▄█"
    assert bars([]) == ""
    assert bars([0.0, 0.0]) == "▁▁"
    assert len(bars([float(number) for number in range(500)])) <= 24


def test_sizes_are_short() -> None:
    assert (size(0), size(700 << 20), size(3 << 30)) == ("0 MiB", "700 MiB", "3.0 GiB")
