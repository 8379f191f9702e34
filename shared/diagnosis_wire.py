"""What a node agent is asked for a diagnosis beyond the probe: `tm.agent.<machine>.test` and `….cancel`.

A session is one diagnosis on one node: the agent keeps a worker process for it, which stays warm from test to test. The
first test of a session starts its worker; `cancel` ends it, and so does a while without any test. An answer has, for
each test that was asked, either figures or what went wrong; a test that is missing in it was not made in time.

Tests: `memory` (bandwidth of copying), `serve` (where other workers reach this one), `exchange` (latency, bandwidth and
integrity of the way to each peer, all at once) and `reduce` (an all-reduce over a ring of peers, bit for bit). The
module imports little, because the agent is meant to be small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from shared.agent_wire import MalformedAnswerError, machine_token

TEST_SUBJECTS: Final = "tm.agent.*.test"
CANCEL_SUBJECTS: Final = "tm.agent.*.cancel"

TestName = Literal["memory", "serve", "exchange", "reduce"]
TEST_NAMES: Final[tuple[TestName, ...]] = ("memory", "serve", "exchange", "reduce")


@dataclass(frozen=True, slots=True)
class Peer:
    """Another worker: its node, where it listens, and the word that it lets in."""

    node: str
    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True)
class TestRequest:
    """One test of a session; `peers` are those to exchange with, or the ring in its order for `reduce`."""

    __test__ = False

    session: str
    node: str
    test: TestName
    limit_s: float
    peers: tuple[Peer, ...] = ()
    round: str = ""


@dataclass(frozen=True, slots=True)
class TestAnswer:
    """What came of a test: figures, those of each peer by its node, where the worker listens; or what went wrong."""

    __test__ = False

    problem: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
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
            peers=tuple(_peer(each) for each in given["peers"]),
            round=str(given["round"]),
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
            figures=_figures(given.get("figures", {})),
            peers={str(node): _figures(each) for node, each in given.get("peers", {}).items()},
            problems={str(node): str(each) for node, each in given.get("problems", {}).items()},
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
    return Peer(str(given["node"]), str(given["host"]), int(given["port"]), str(given["token"]))


def _figures(given: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in given.items()}
