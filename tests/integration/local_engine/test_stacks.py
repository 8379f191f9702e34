"""What the node agent sees of replicas that hang, with real processes in real sandboxes, by the real py-spy."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from services.agent.stacks import Stacks
from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.gangs import CodeInline, GangStart
from services.watchdog.adapters.agents import decode_look
from services.watchdog.domain.folding import Folded, fold, ranks_of
from shared.agent_evidence import MachineLook, ReplicaLook, StacksRequest, encode_request
from tests.support.local_engine import PYTHON, appears, bench, gang_of, replica_dir

TRAIN = """
import sys, time

def barrier():
    print("at the barrier", flush=True)
    time.sleep(600)

def load_batch():
    print("loading", flush=True)
    while True:
        pass

def train(rank):
    load_batch() if rank == 3 else barrier()

train(int(sys.argv[1]))
"""
COMMAND = f"{PYTHON} train.py"


def no_gpus() -> tuple[tuple[()], tuple[()]]:
    return (), ()


async def look_at(home: Path, gang: GangStart) -> MachineLook:
    request = encode_request(StacksRequest(gang.job, gang.attempt))
    return decode_look(await Stacks(home / "gangs", no_gpus).answer(request))


def folded(look: MachineLook) -> Folded:
    return fold(rank for replica in look.replicas for rank in ranks_of(replica))


async def hanging(home: Path, gang: GangStart, texts: Mapping[int, str]) -> None:
    for index, text in texts.items():
        await appears(replica_dir(home, gang, index) / "log", text)


@pytest.mark.parametrize("sandboxed", [True, False])
async def test_the_one_rank_that_does_not_wait_with_the_others_is_named(
    settings: LocalSettings, home: Path, sandboxed: bool
):
    gang = gang_of(*(f"{COMMAND} {index}" for index in range(4)), code=CodeInline({"train.py": TRAIN}))
    async with bench(replace(settings, sandboxed=sandboxed)) as desk:
        await desk.engine.start(gang)
        await hanging(home, gang, {0: "barrier", 1: "barrier", 2: "barrier", 3: "loading"})
        look = await look_at(home, gang)
        await desk.engine.stop(gang.id, 0)
        await desk.exits(gang)
    found = folded(look)
    assert [group.ranks for group in found.groups] == [("worker-0", "worker-1", "worker-2"), ("worker-3",)]
    assert found.groups[0].doing == "in barrier (train.py:6)"
    assert [outlier.partition(" is in ")[0] for outlier in found.outliers] == ["worker-3"]
    assert "3 of 4 ranks are in barrier" in found.summary
    assert "worker-3 is in load_batch" in found.summary
    (spinning,) = [process for process in look.replicas[3].processes if process.threads]
    (waiting,) = [process for process in look.replicas[0].processes if process.threads]
    assert spinning.state == "R"
    assert spinning.cpu_percent > waiting.cpu_percent
    assert waiting.waits_in
    assert look.problems == ()


async def test_workers_of_torchrun_are_ranks_and_their_helpers_are_not(settings: LocalSettings, home: Path):
    code = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('up', flush=True)\ntime.sleep(600)\n"
    workers = " & ".join(f'LOCAL_RANK={rank} RANK={rank + 4} {PYTHON} -c "$CODE"' for rank in range(2))
    gang = gang_of(f"{workers} & wait", env={"CODE": code, "RANK": "0"})
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await appears(replica_dir(home, gang) / "log", "up\nup\n")
        (replica,) = (await look_at(home, gang)).replicas
        await desk.engine.stop(gang.id, 0)
        await desk.exits(gang)
    assert [process.rank for process in replica.processes[:3]] == [4, 5, None]
    assert [rank.name for rank in ranks_of(replica)] == ["rank 4 (worker-0)", "rank 5 (worker-0)"]


async def test_a_command_without_python_is_told_by_its_state(settings: LocalSettings, home: Path):
    gang = gang_of("echo up; exec sleep 600")
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await appears(replica_dir(home, gang) / "log", "up")
        async with asyncio.timeout(45):  # a command that has just begun may still be running
            while not (summary := folded(await look_at(home, gang)).summary).startswith("worker-0 is sleeping"):
                await asyncio.sleep(0.02)
        await desk.engine.stop(gang.id, 0)
        await desk.exits(gang)
    assert summary.endswith("(sleep)")


async def test_another_attempt_and_another_job_are_not_looked_at(settings: LocalSettings, home: Path):
    gang = gang_of("echo up; sleep 600")
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await appears(replica_dir(home, gang) / "log", "up")
        look = await look_at(home, replace(gang, attempt=2))
        await desk.engine.stop(gang.id, 0)
        await desk.exits(gang)
    assert look == MachineLook()


RECORDER = """
import os, pickle, sys
os.mkfifo("/tmp/pipe-4.pipe")
print("up", flush=True)
with open("/tmp/pipe-4.pipe") as pipe:
    pipe.read(1)
open("/tmp/trace-4", "wb").write(bytes.fromhex(os.environ["DUMP"]))
import time; time.sleep(600)
"""


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return print, ("never",)


@pytest.mark.parametrize("hostile", [False, True])
async def test_open_collectives_come_from_the_flight_recorder_and_no_code_from_its_file(
    settings: LocalSettings, home: Path, hostile: bool
):
    entries = [
        {"profiling_name": "nccl:all_reduce", "state": state, "collective_seq_id": number, "process_group": ("0", "dp")}
        for number, state in enumerate(("completed", "started"))
    ]
    dump = pickle.dumps({"entries": Hostile() if hostile else entries}).hex()
    variables = {"LOCAL_RANK": "0", "RANK": "4", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/pipe-", "DUMP": dump}
    settings_of_recorder = {**variables, "TORCH_FR_DUMP_TEMP_FILE": "/tmp/trace-"}
    exported = " ".join(f"{name}={value}" for name, value in settings_of_recorder.items())
    gang = gang_of(f'env {exported} {PYTHON} -c "$CODE" & wait', env={"CODE": RECORDER})
    async with bench(settings) as desk:
        await desk.engine.start(gang)
        await appears(replica_dir(home, gang) / "log", "up")
        await asyncio.sleep(0.1)
        (replica,) = (await look_at(home, gang)).replicas
        await desk.engine.stop(gang.id, 0)
        await desk.exits(gang)
    (rank,) = [process for process in replica.processes if process.rank == 4]
    if hostile:
        assert (rank.collectives, rank.problem) == ((), "what the flight recorder wrote cannot be read")
    else:
        (collective,) = rank.collectives
        assert (collective.name, collective.state, collective.sequence) == ("nccl:all_reduce", "started", 1)
        assert collective.group == "0 dp"


def test_a_replica_of_which_nothing_is_left_says_so():
    (rank,) = ranks_of(ReplicaLook("worker", 0, problem="no process of it is left"))
    assert rank.suspicious
    assert rank.shown == "no process of it is left"
