"""What a node agent is asked over NATS, and what it answers: request and reply on `tm.agent.<machine>.<verb>`.

`probe`: the nodes that are to be looked at go out, a measurement of each comes back. An agent that serves several nodes
of one machine measures the machine once and answers for every node that it was asked about. A node that is missing from
the answer was not measured; who asks decides what that means.

`shipped`: a gang goes out, and back comes whether everything of it on this machine is kept by `logs`, and so whether it
may be removed; where that is not so, or not known yet, why.

The module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from shared.agent_facts import Complaint, Gpu, Port, complaint_of, gpu_of, port_of
from shared.errors import TrainmasterError

PROBE_SUBJECTS: Final = "tm.agent.*.probe"
SHIPPED_SUBJECTS: Final = "tm.agent.*.shipped"
_NOT_IN_A_TOKEN: Final = re.compile(r"[^A-Za-z0-9_-]+")


class MalformedAnswerError(TrainmasterError):
    """Bytes that are neither a request nor an answer of this protocol."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class Shipped:
    """Whether all of a gang on a machine is kept; `waits_for` says what is not, as names of replicas or in words."""

    gang: str
    waits_for: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether nothing is needed there any more."""
        return not self.waits_for


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the probe found: `checksums` has, for each result of the matrix multiplication, the CPUs that gave it.

    `kind` says which machines it can be compared with, `device_ms` how much processor time each device took for the
    multiplication. `limits` are those of processes (-1 is none), `gpus_unknown` says why the GPUs could not be looked
    at, `versions` are those of the driver. Of the places that were asked about, `unreachable` ones cannot be read, and
    `read_only` ones cannot be written though they should be, `unlooked` ones are out of the agent's sight. `resolves`
    says whether the machine's own name has an address; `unresolved` are other names that should have one.

    Where `kubelet_gives` GPUs, nobody knows before a pod is there which ones it gets; `gpus_are_whole` says whether
    each goes to one pod, `gpus_unseen` why the agent is not meant to see them.

    `heard_unix_ms` and `sent_unix_ms` say by the machine's clock when the agent heard the question and answered it;
    they are 0 where it does not say so.
    """

    cpus: tuple[int, ...]
    memory_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    shm_free_bytes: int
    open_files: int
    load: float
    unix_ms: int
    checksums: Mapping[str, tuple[int, ...]]
    gemm_ms: float
    gpus: tuple[Gpu, ...] = ()
    kind: str = ""
    device_ms: Mapping[str, float] = field(default_factory=dict)
    read_only: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    unlooked: tuple[str, ...] = ()
    resolves: bool = True
    unresolved: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    gpus_unknown: str = ""
    ports: tuple[Port, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    kubelet_gives: bool = False
    gpus_are_whole: bool = True
    gpus_unseen: str = ""
    heard_unix_ms: int = 0
    sent_unix_ms: int = 0

    @property
    def devices(self) -> frozenset[str]:
        """Names of its CPUs and GPUs."""
        return frozenset((*(f"cpu-{cpu}" for cpu in self.cpus), *(gpu.id for gpu in self.gpus), *self.device_ms))


def machine_token(name: str) -> str:
    """The machine's name as a token of a subject."""
    return _NOT_IN_A_TOKEN.sub("-", name).strip("-") or "local"


def probe_subject(machine: str) -> str:
    """Where the agent of a machine is asked for a probe."""
    return f"tm.agent.{machine_token(machine)}.probe"


def shipped_subject(machine: str) -> str:
    """Where the agent of a machine is asked whether a gang is shipped."""
    return f"tm.agent.{machine_token(machine)}.shipped"


def encode_shipped_request(gang: str) -> bytes:
    """Ask about this gang."""
    return json.dumps({"gang": gang}).encode()


def decode_shipped_request(body: bytes) -> str:
    """The gang that is asked about; raises MalformedAnswerError."""
    try:
        return str(json.loads(body)["gang"])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no question about a gang: {error!r}") from error


def encode_shipped(shipped: Shipped) -> bytes:
    """The answer as bytes."""
    return json.dumps(asdict(shipped)).encode()


def decode_shipped(body: bytes) -> Shipped:
    """The answer in the bytes; raises MalformedAnswerError."""
    try:
        given = json.loads(body)
        return Shipped(str(given["gang"]), tuple(str(each) for each in given["waits_for"]))
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no answer about a gang: {error!r}") from error


def encode_probe_request(nodes: Iterable[str], places: Mapping[str, bool] | None = None) -> bytes:
    """Ask about these nodes, and about directories on them: whether each must be writable."""
    return json.dumps({"nodes": sorted(nodes), "places": dict(places or {})}).encode()


def decode_probe_request(body: bytes) -> tuple[str, ...]:
    """The nodes that are asked about; raises MalformedAnswerError."""
    try:
        return tuple(str(node) for node in json.loads(body)["nodes"])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no probe request: {error}") from error


def places_of_request(body: bytes) -> dict[str, bool]:
    """The directories that are asked about, and whether each must be writable; raises MalformedAnswerError."""
    try:
        return {str(place): bool(writable) for place, writable in json.loads(body).get("places", {}).items()}
    except (ValueError, AttributeError) as error:
        raise MalformedAnswerError(f"no probe request: {error}") from error


def encode_probe_answer(measured: Mapping[str, Measurement]) -> bytes:
    """Answer with the measurement of each node."""
    return json.dumps({"nodes": {node: asdict(each) for node, each in measured.items()}}).encode()


def decode_probe_answer(body: bytes) -> dict[str, Measurement]:
    """The measurements by node; raises MalformedAnswerError."""
    try:
        return {str(node): measurement_of(fields) for node, fields in json.loads(body)["nodes"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedAnswerError(f"no answer to a probe: {error}") from error


def measurement_of(fields: Mapping[str, Any]) -> Measurement:
    """The measurement of its JSON; raises MalformedAnswerError where a field is missing or is no such thing."""
    try:
        return Measurement(
            cpus=tuple(int(cpu) for cpu in fields["cpus"]),
            memory_bytes=int(fields["memory_bytes"]),
            memory_free_bytes=int(fields["memory_free_bytes"]),
            disk_free_bytes=int(fields["disk_free_bytes"]),
            shm_free_bytes=int(fields["shm_free_bytes"]),
            open_files=int(fields["open_files"]),
            load=float(fields["load"]),
            unix_ms=int(fields["unix_ms"]),
            checksums={str(sum_): tuple(int(cpu) for cpu in cpus) for sum_, cpus in fields["checksums"].items()},
            gemm_ms=float(fields["gemm_ms"]),
            gpus=tuple(gpu_of(each) for each in fields.get("gpus", ())),
            kind=str(fields.get("kind", "")),
            device_ms={str(device): float(ms) for device, ms in fields.get("device_ms", {}).items()},
            read_only=tuple(str(place) for place in fields.get("read_only", ())),
            unreachable=tuple(str(place) for place in fields.get("unreachable", ())),
            unlooked=tuple(str(place) for place in fields.get("unlooked", ())),
            resolves=bool(fields.get("resolves", True)),
            unresolved=tuple(str(name) for name in fields.get("unresolved", ())),
            limits={str(name): int(value) for name, value in fields.get("limits", {}).items()},
            versions={str(name): str(value) for name, value in fields.get("versions", {}).items()},
            gpus_unknown=str(fields.get("gpus_unknown", "")),
            ports=tuple(port_of(each) for each in fields.get("ports", ())),
            complaints=tuple(complaint_of(each) for each in fields.get("complaints", ())),
            kubelet_gives=bool(fields.get("kubelet_gives", False)),
            gpus_are_whole=bool(fields.get("gpus_are_whole", True)),
            gpus_unseen=str(fields.get("gpus_unseen", "")),
            heard_unix_ms=int(fields.get("heard_unix_ms", 0)),
            sent_unix_ms=int(fields.get("sent_unix_ms", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedAnswerError(f"no measurement: {error!r}") from error
