"""What a diagnosis measured, as its report tells it: figures of nodes and devices, pairs of nodes, and beliefs."""

from __future__ import annotations

from shared.events.facts import Fact, Sentence, Verdict


class FigureMeasured(Fact):
    """One figure of a node or of a device on it, and what it was judged by; `why` says what is wrong with it.

    `percentile` is where the value stands among comparable ones, whose middle is `median`; `against` names them.
    """

    name: str
    value: float
    unit: str
    device: str | None = None
    floor: float | None = None
    median: float | None = None
    percentile: float | None = None
    against: str = ""
    why: Sentence = ""


class PairMeasured(Fact):
    """What the tests of two nodes gave: the best bandwidth and latency, how many were made and failed.

    `transport` says over what: nccl, gloo, or tcp where a node has no PyTorch.
    """

    first: str
    second: str
    verdict: Verdict
    tests: int
    failed: int = 0
    bandwidth_mb_s: float | None = None
    latency_us: float | None = None
    why: Sentence = ""
    transport: str = "tcp"


class PartBelief(Fact):
    """How likely a node, a device or a link is bad, and the evidence that the ledger remembers of it."""

    part: str
    suspicion: float
    evidence: tuple[float, ...]
    fails: float = 0.0
