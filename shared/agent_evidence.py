"""What a node agent tells of the processes of a gang that may hang: `tm.agent.<machine>.stacks`.

A request names an attempt; the answer has, for each of its replicas on this machine, the processes with their states
and Python stacks, and what PyTorch's flight recorder knows of open collectives; and what the machine's GPUs do. The
answer is compressed JSON, since a reply over NATS is at most a megabyte: `encode_answer` leaves out the threads beside
the main ones, then whole processes, where it would be larger, and says so. Who asks checks what it gets.

The module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final

from shared.agent_wire import MalformedAnswerError, machine_token
from shared.units import KIB

STACKS_SUBJECTS: Final = "tm.agent.*.stacks"
ANSWER_MAX_BYTES: Final = 900 * KIB
_PROCESSES_KEPT: Final = 4


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


class _Told:
    """How pydantic reads and shows what is told: either spelling is read, camelCase is shown, as in the API."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"alias_generator": _camel, "populate_by_name": True}


@dataclass(frozen=True, slots=True)
class StacksRequest:
    """Look at the replicas of this attempt."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Thread(_Told):
    """One thread of Python code: its frames as `function (file:line)`, the innermost first."""

    name: str
    frames: tuple[str, ...]
    active: bool = False


@dataclass(frozen=True, slots=True)
class Collective(_Told):
    """A collective operation that a process group has begun and not finished."""

    name: str
    state: str
    sequence: int
    group: str = ""
    sizes: str = ""


@dataclass(frozen=True, slots=True)
class Process(_Told):
    """One process: `rank` where it is a rank of its own, `waits_in` the kernel function in which it sleeps.

    `threads` begin with the main thread; `problem` says why there are none, where a look at the process failed.
    """

    pid: int
    parent: int
    command: str
    state: str
    rank: int | None = None
    waits_in: str = ""
    thread_count: int = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None
    threads: tuple[Thread, ...] = ()
    collectives: tuple[Collective, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaLook(_Told):
    """The processes of one replica on this machine."""

    role: str
    index: int
    processes: tuple[Process, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GpuActivity(_Told):
    """What one GPU does now; `pids` are the processes that use it, None is what the driver does not tell."""

    id: str
    name: str
    busy_percent: int | None = None
    memory_busy_percent: int | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineLook(_Told):
    """The answer of one agent; `problems` are what could not be looked at."""

    replicas: tuple[ReplicaLook, ...] = ()
    gpus: tuple[GpuActivity, ...] = ()
    problems: tuple[str, ...] = ()


def stacks_subject(machine: str) -> str:
    """Where the agent of a machine is asked for stacks."""
    return f"tm.agent.{machine_token(machine)}.stacks"


def encode_request(request: StacksRequest) -> bytes:
    """The request as bytes."""
    return json.dumps(asdict(request)).encode()


def decode_request(body: bytes) -> StacksRequest:
    """The request in the bytes; raises MalformedAnswerError."""
    try:
        given = json.loads(body)
        return StacksRequest(str(given["job"]), int(given["attempt"]))
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no request for stacks: {error!r}") from error


def encode_answer(look: MachineLook) -> bytes:
    """The answer as bytes, with less in it where it would be too large for a reply."""
    for reduce in (_whole, _main_threads, _few_processes, _nothing):
        body = zlib.compress(json.dumps(asdict(reduce(look))).encode())
        if len(body) <= ANSWER_MAX_BYTES:
            break
    return body


def _whole(look: MachineLook) -> MachineLook:
    return look


def _main_threads(look: MachineLook) -> MachineLook:
    return _reduced(
        look,
        lambda replica: replace(
            replica, processes=tuple(replace(each, threads=each.threads[:1]) for each in replica.processes)
        ),
        "threads beside the main ones are left out, as the answer would be too large",
    )


def _few_processes(look: MachineLook) -> MachineLook:
    return _reduced(
        _main_threads(look),
        lambda replica: replace(replica, processes=replica.processes[:_PROCESSES_KEPT]),
        f"processes beyond the first {_PROCESSES_KEPT} of each replica are left out, as the answer would be too large",
    )


def _nothing(look: MachineLook) -> MachineLook:
    return MachineLook(problems=(f"the stacks of {len(look.replicas)} replicas are too large for one answer",))


def _reduced(look: MachineLook, reduce: Callable[[ReplicaLook], ReplicaLook], problem: str) -> MachineLook:
    return replace(look, replicas=tuple(map(reduce, look.replicas)), problems=(*look.problems, problem))
