"""Samples are written beside the log, shipped like it, and stop with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from services.agent import processes
from services.agent.domain.resources import Burden, Look
from services.agent.sampler import Sampler, gpus_of
from shared.agent_evidence import GpuActivity
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample, decode_sample
from tests.unit.services.agent.test_lanes import REPLICA, Machine


class Looks:
    """Looks that a test gives."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.asked: list[set[ReplicaRef]] = []

    def __call__(self, replicas: Mapping[ReplicaRef, Path], /) -> Look:
        self.at_s += 5
        self.asked.append(set(replicas))
        return Look(self.at_s, int(self.at_s * 1000), {each: [Burden(self.at_s, 10)] for each in replicas})


async def test_samples_are_shipped_with_their_end_and_do_not_count_as_output(tmp_path: Path):
    machine, looks, woken = Machine(tmp_path), Looks(), []
    sampler = Sampler(machine.gangs, looks, lambda: woken.append(True), 5.0)
    machine.write(b"hello\n")
    await machine.passes()
    assert await sampler.sample() == 1
    assert (woken, looks.asked) == ([], [{REPLICA}])
    assert await sampler.sample() == 1
    assert woken == [True]
    machine.end()
    await machine.passes(2)
    sent = [chunk for chunk in machine.transit.chunks if chunk.file.kind == "use"]
    machine.transit.announce(machine.arrivals)
    sample = decode_sample(sent[0].data.strip())
    assert sample is not None
    assert (sample.at_ms, sample.cpu_cores, sample.memory_bytes) == (10_000, 1.0, 10)
    assert sent[-1].end == len(sent[0].data)
    await machine.passes()
    assert (machine.directory / "shipped.json").read_text() == '{"bytes": 6}'


async def test_nothing_is_written_once_the_log_is_complete(tmp_path: Path):
    machine, looks = Machine(tmp_path), Looks()
    sampler = Sampler(machine.gangs, looks, lambda: None, 5.0)
    machine.write(b"hello\n")
    machine.end()
    await machine.passes()
    assert await sampler.sample() == 0
    assert looks.asked == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_process_counts_the_children_that_it_waited_for():
    code = "import os\nif os.fork() == 0:\n    sum(range(8_000_000)); os._exit(0)\nos.wait(); print(); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    burden = processes.burden_of(process.pid)
    process.communicate(b"\n")
    assert burden is not None
    assert burden.cpu_s > 0.03
    assert burden.memory_bytes > 1_000_000
    assert processes.burden_of(process.pid) is None
    assert processes.burden_of(os.getpid()) is not None


def test_a_gpu_belongs_to_the_replicas_whose_processes_use_it():
    activity = [GpuActivity("GPU-1", "H200", 90, None, 1000, None, (9, 100)), GpuActivity("GPU-2", "H200")]
    other = ReplicaRef("tj-b", 1, "worker", 0)
    assert gpus_of({REPLICA: [7], other: [8, 9]}, activity) == {REPLICA: (), other: (GpuSample("GPU-1", 90, 1000),)}
