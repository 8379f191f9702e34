"""Answers `tm.agent.<machine>.stacks`: what the replicas of one attempt on this machine are doing right now.

Processes are listed first and looked at in parallel, a few at a time, with a limit for the whole that leaves who asks
the time to put the evidence together: what was not looked at by then says so. The processor time of each is taken at
the beginning and at the end, since a process that spins and one that sleeps have the same stack.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from services.agent import flight, gpus, processes
from services.agent.domain.manifest import ManifestError, parse_manifest
from services.agent.processes import Environment, ProcessFacts
from services.agent.pyspy import find_pyspy, stacks_of
from services.agent.replica import SHIP_FILE
from shared.agent_evidence import (
    GpuActivity,
    MachineLook,
    Process,
    ReplicaLook,
    StacksRequest,
    decode_request,
    encode_answer,
)
from shared.logs_wire import ReplicaRef

LIMIT_S: Final = 30.0
AT_ONCE: Final = 4
PROCESSES_MAX: Final = 64
SPAN_S: Final = 0.5
_NOT_IN_TIME: Final = f"not looked at within {LIMIT_S:g} s"

GpuLook = Callable[[], tuple[tuple[GpuActivity, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Found:
    """The processes of a replica that can be looked at, and what is to be said where there are none."""

    pids: Sequence[int]
    problem: str = "no process of it is left"


Finder = Callable[[Mapping[ReplicaRef, Path]], Mapping[ReplicaRef, Found]]


def found_in_proc(replicas: Mapping[ReplicaRef, Path]) -> dict[ReplicaRef, Found]:
    """The processes of replicas, whose directories are given, as they are found on one machine."""
    return {replica: Found(pids) for replica, pids in processes.pids_of(replicas).items()}


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A process that is to be looked at: its facts as the look began."""

    facts: ProcessFacts
    environment: Environment
    rank: int | None


class Stacks:
    """Looks at processes on demand; `gangs` is where the engine keeps the directories of replicas."""

    def __init__(
        self, gangs: Path, look_at_gpus: GpuLook = gpus.activity, find_processes: Finder = found_in_proc
    ) -> None:
        self._gangs = gangs
        self._find_processes = find_processes
        self._look_at_gpus = look_at_gpus
        self._pyspy = find_pyspy()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def answer(self, request: bytes) -> bytes:
        """The answer to a request; raises MalformedAnswerError where it is none."""
        look = await self.look(decode_request(request))
        return await asyncio.to_thread(encode_answer, look)

    async def look(self, request: StacksRequest) -> MachineLook:
        """What is to be seen of the attempt here."""
        directories = await asyncio.to_thread(self._directories_of, request)
        found = await asyncio.to_thread(self._find_processes, directories)
        looking = [self._replica(replica, found[replica]) for replica in directories]
        looking_at_gpus = asyncio.create_task(asyncio.to_thread(self._look_at_gpus))
        replicas = await asyncio.gather(*looking)
        active, problems = await looking_at_gpus
        return MachineLook(tuple(replicas), active, problems)

    def _directories_of(self, request: StacksRequest) -> dict[ReplicaRef, Path]:
        """The directories of the attempt's replicas that are on this machine."""
        found = {}
        for file in sorted(self._gangs.glob(f"*/replicas/*/{SHIP_FILE}")):
            try:
                replica = parse_manifest(file.read_text("utf-8")).replica
            except (OSError, UnicodeDecodeError, ManifestError):
                continue
            if (replica.job, replica.attempt) == (request.job, request.attempt):
                found[replica] = file.parent
        return found

    async def _replica(self, replica: ReplicaRef, found: Found) -> ReplicaLook:
        suspects, began = await asyncio.to_thread(_suspects, found.pids), time.monotonic()
        deadline = asyncio.get_running_loop().time() + LIMIT_S
        spanning = asyncio.create_task(asyncio.sleep(SPAN_S if suspects else 0))
        looked = await asyncio.gather(*(self._process(suspect, deadline) for suspect in suspects))
        await spanning
        span_s = time.monotonic() - began
        seen = tuple(_with_cpu(process, suspect, span_s) for process, suspect in zip(looked, suspects, strict=True))
        problem = "" if seen else found.problem
        left_out = len(found.pids) - PROCESSES_MAX
        return ReplicaLook(
            replica.role,
            replica.index,
            seen,
            f"{left_out} further processes are not looked at" if left_out > 0 else problem,
        )

    async def _process(self, suspect: _Suspect, deadline: float) -> Process:
        process = _plain(suspect)
        try:
            async with asyncio.timeout_at(deadline), self._turns:
                if processes.is_python(process.pid):
                    threads, problem = await stacks_of(self._pyspy, process.pid)
                    process = replace(process, threads=threads, problem=problem)
                return await self._with_collectives(process, suspect)
        except TimeoutError:
            return replace(process, problem=process.problem or _NOT_IN_TIME)

    async def _with_collectives(self, process: Process, suspect: _Suspect) -> Process:
        if suspect.rank is None or not flight.is_recording(suspect.environment):
            return process
        found, problem = await flight.open_collectives(process.pid, suspect.rank, suspect.environment)
        return replace(process, collectives=found, problem="; ".join(filter(None, (process.problem, problem))))


def _suspects(pids: Sequence[int]) -> list[_Suspect]:
    """The processes with what is known of them; ranks first, then as they were started."""
    facts = [found for pid in pids if (found := processes.facts_of(pid)) is not None]
    environments: Mapping[int, Environment] = {each.pid: processes.environment_of(each.pid) for each in facts}
    suspects = [_suspect(each, environments) for each in facts]
    return sorted(suspects, key=lambda suspect: (suspect.rank is None, suspect.rank or 0))[:PROCESSES_MAX]


def _suspect(facts: ProcessFacts, environments: Mapping[int, Environment]) -> _Suspect:
    own = environments[facts.pid]
    return _Suspect(facts, own, processes.rank_of(own, environments.get(facts.parent, {})))


def _plain(suspect: _Suspect) -> Process:
    facts = suspect.facts
    return Process(
        pid=facts.pid,
        parent=facts.parent,
        command=facts.command,
        state=facts.state,
        rank=suspect.rank,
        waits_in=facts.waits_in,
        thread_count=facts.thread_count,
        memory_bytes=facts.memory_bytes,
        read_bytes=facts.read_bytes,
        written_bytes=facts.written_bytes,
    )


def _with_cpu(process: Process, suspect: _Suspect, span_s: float) -> Process:
    """The process with the share of a processor that it used meanwhile."""
    after = processes.facts_of(process.pid)
    if after is None:
        return replace(process, problem=process.problem or "it ended while it was looked at")
    used_s = max(0.0, after.cpu_s - suspect.facts.cpu_s)
    return replace(process, cpu_percent=round(100 * used_s / span_s, 1))
