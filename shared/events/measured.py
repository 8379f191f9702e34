"""What a diagnosis measured, as its report tells it: figures of nodes and devices, pairs, beliefs, steps of ranks."""

from __future__ import annotations

from shared.events.facts import Fact, Sentence, Verdict


class FigureMeasured(Fact):
    """One figure of a node or of a device on it, and what it was judged by; `why` says what is wrong with it.

    `floor` is the least that is good, or the most where `less_is_better`. `percentile` is where the value stands among
    comparable ones, whose middle is `median`; `against` names them.
    """

    name: str
    value: float
    unit: str
    device: str | None = None
    floor: float | None = None
    less_is_better: bool = False
    median: float | None = None
    percentile: float | None = None
    against: str = ""
    why: Sentence = ""


class PairMeasured(Fact):
    """What the tests of two nodes gave: the best bandwidth and latency, how many were made and failed.

    `transport` says over what: nccl, gloo, or tcp where a node has no PyTorch. Nodes with several
    GPUs have a rail for each. What the bandwidth was judged by is told as with a figure. `compared` says of one that
    was low how often it was measured in turns with others and what came of that, or why it was not.
    """

    first: str
    second: str
    verdict: Verdict
    tests: int
    failed: int = 0
    bandwidth_mb_s: float | None = None
    latency_us: float | None = None
    rails_mb_s: tuple[float, ...] = ()
    floor_mb_s: float | None = None
    median_mb_s: float | None = None
    percentile: float | None = None
    against: str = ""
    why: Sentence = ""
    compared: Sentence = ""
    transport: str = "tcp"


class PartBelief(Fact):
    """How likely a node, a device or a link is bad, and the evidence that the ledger remembers of it."""

    part: str
    suspicion: float
    evidence: tuple[float, ...]
    fails: float = 0.0


class RankSteps(Fact):
    """How long the first steps of one rank took, in columns: one entry for a window of steps, its middle step.

    `rank` counts processes where the training told it, else replicas. Where only step times are known `wait_ms` is
    empty, and they stand in `compute_ms`. `data_ms` is the part of `compute_ms` that waited for the next batch.
    """

    role: str
    index: int
    rank: int
    last_steps: tuple[int, ...]
    compute_ms: tuple[float, ...]
    wait_ms: tuple[float, ...] = ()
    data_ms: tuple[float, ...] = ()


class SlowRank(Fact):
    """A rank that held the others up in the first steps of an attempt; `why` has the figures in words."""

    role: str
    index: int
    rank: int
    node: str
    compute_ms: float
    middle_ms: float
    windows: int
    why: Sentence
