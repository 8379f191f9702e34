"""What a node agent is asked for a diagnosis beyond the probe: `tm.agent.<machine>.test` and `….cancel`.

A session is one diagnosis: the agent keeps processes for it on its machine, some for each node, which stay warm from
test to test. The first test of a session starts them; `cancel` ends them, and so does a while without any test. An
answer has figures or what went wrong; no answer means that the test was not made in time.

Tests of one node: `begin` (open its devices, and say with what they are tested), `compute`, `memory`, `hostDevice`
(each device by itself), `local` (collectives of all its devices), `link` (the way between two of them). Tests of
several: `serve` (where others reach this node), `exchange` (the way between two nodes, asked of both) and `gang`
(collectives of all, asked of each). `deep` are NVIDIA's own tests at a `level`; level 0 asks whether they are there.
`transport` says what carries data between nodes: NCCL, Gloo, or plain TCP where
one has no PyTorch. The module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from shared.agent_wire import MalformedAnswerError, machine_token

TEST_SUBJECTS: Final = "tm.agent.*.test"
CANCEL_SUBJECTS: Final = "tm.agent.*.cancel"

TestName = Literal["begin", "compute", "memory", "hostDevice", "local", "link", "serve", "exchange", "gang", "deep"]
TEST_NAMES: Final[tuple[TestName, ...]] = get_args(TestName)
Transport = Literal["nccl", "gloo", "tcp"]
# What people are told a test is.
TEST_TITLES: Final[Mapping[TestName, str]] = {
    "begin": "opening its devices",
    "compute": "the multiplications on its devices",
    "memory": "the test of its memory",
    "hostDevice": "copying between host and devices",
    "local": "collectives of its devices",
    "link": "the way between two of its devices",
    "serve": "letting other nodes in",
    "exchange": "the exchange with another node",
    "gang": "collectives of the whole gang",
    "deep": "NVIDIA's own tests",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A node that can be reached: where it listens, the word that lets in, and the port of its store of groups."""

    node: str
    host: str
    port: int
    token: str
    store: int = 0


@dataclass(frozen=True, slots=True)
class TestRequest:
    """One test of a session: after `limit_s` nobody waits for it any more, `work_s` is how long it may measure.

    `begun` says that the node has answered a test of the session before. `devices` are the GPUs of the node that may be
    used, `ranks_each` how many of each node take part, `ranks` the two of a `link`. `peers` are all that take part, in
    their order; `round` differs from test to test of a session. `enough` has for a figure the least that is good, where
    that is known, `sizes` the bytes of messages.
    """

    __test__ = False

    session: str
    node: str
    test: TestName
    limit_s: float
    work_s: float = 1.0
    begun: bool = False
    devices: tuple[str, ...] = ()
    peers: tuple[Peer, ...] = ()
    round: str = ""
    transport: Transport = "tcp"
    ranks_each: int = 1
    ranks: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    level: int = 0
    enough: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What a test gave for one device: figures, checksums of products by what was multiplied, or what went wrong."""

    figures: Mapping[str, float] = field(default_factory=dict)
    checksums: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TestAnswer:
    """What came of a test: figures of the node, of its devices, of each rail of a pair; or what went wrong.

    `excuse` says why it was not made though the node is not to blame: others need what it would have used, or the agent
    has too little of its own. `about` says with what the node is tested: `transport`, `python`, versions, and
    `without`, why not by PyTorch.
    """

    __test__ = False

    problem: str = ""
    excuse: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, DeviceResult] = field(default_factory=dict)
    rails: tuple[float, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    served: Peer | None = None


def worker_subject(machine: str) -> str:
    """Where the agent of a machine is asked for a test."""
    return f"tm.agent.{machine_token(machine)}.test"


def cancel_subject(machine: str) -> str:
    """Where the agent of a machine is told that a session is over."""
    return f"tm.agent.{machine_token(machine)}.cancel"


def encode_test_request(request: TestRequest) -> bytes:
    """The request as bytes."""
    return json.dumps(asdict(request)).encode()


def decode_test_request(body: bytes) -> TestRequest:
    """The request in the bytes; raises MalformedAnswerError."""
    try:
        given = json.loads(body)
        if given["test"] not in TEST_NAMES:
            raise MalformedAnswerError(f"test {given['test']!r} is unknown; there are {', '.join(TEST_NAMES)}")
        return TestRequest(
            session=str(given["session"]),
            node=str(given["node"]),
            test=given["test"],
            limit_s=float(given["limit_s"]),
            work_s=float(given["work_s"]),
            begun=bool(given.get("begun", False)),
            devices=tuple(str(each) for each in given["devices"]),
            peers=tuple(_peer(each) for each in given["peers"]),
            round=str(given["round"]),
            transport=given["transport"],
            ranks_each=int(given["ranks_each"]),
            ranks=tuple(int(each) for each in given["ranks"]),
            sizes=tuple(int(each) for each in given["sizes"]),
            level=int(given["level"]),
            enough=_figures(given["enough"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no request for a test: {error!r}") from error


def encode_test_answer(answer: TestAnswer) -> bytes:
    """The answer as bytes."""
    return json.dumps(asdict(answer)).encode()


def decode_test_answer(body: bytes) -> TestAnswer:
    """The answer in the bytes; raises MalformedAnswerError."""
    try:
        return answer_of_fields(json.loads(body))
    except ValueError as error:
        raise MalformedAnswerError(f"no answer to a test: {error!r}") from error


def answer_of_fields(given: Mapping[str, Any]) -> TestAnswer:
    """The answer of its JSON; raises MalformedAnswerError."""
    try:
        served = given.get("served")
        return TestAnswer(
            problem=str(given.get("problem", "")),
            excuse=str(given.get("excuse", "")),
            figures=_figures(given.get("figures", {})),
            devices={str(name): _device(each) for name, each in given.get("devices", {}).items()},
            rails=tuple(float(each) for each in given.get("rails", ())),
            about=_texts(given.get("about", {})),
            served=_peer(served) if served else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedAnswerError(f"no answer to a test: {error!r}") from error


def encode_cancel(session: str) -> bytes:
    """Tell that a session is over."""
    return json.dumps({"session": session}).encode()


def decode_cancel(body: bytes) -> str:
    """The session that is over; raises MalformedAnswerError."""
    try:
        return str(json.loads(body)["session"])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedAnswerError(f"no word that a session is over: {error!r}") from error


def _peer(given: Mapping[str, Any]) -> Peer:
    store = int(given.get("store", 0))
    return Peer(str(given["node"]), str(given["host"]), int(given["port"]), str(given["token"]), store)


def _device(given: Mapping[str, Any]) -> DeviceResult:
    return DeviceResult(
        figures=_figures(given.get("figures", {})),
        checksums=_texts(given.get("checksums", {})),
        problem=str(given.get("problem", "")),
    )


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()}


def _figures(given: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in given.items()}
