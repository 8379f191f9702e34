"""How long a diagnosis will take, told before it begins. Pure.

Machines are tested at the same time, shares of one machine one after the other. The planned budget has every stage as
long as it takes at most where no suspect turns up. With suspects tests are made again, and pairs compared in turns,
until the time for all of it is up: a bound that the diagnosis keeps, whatever a machine does. Looks at nodes that do
not answer take of it, too; then less is left for tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, Literal

from services.diagnoser.domain.pairing import screening, waves
from services.diagnoser.domain.search import SCREENING_ROUNDS
from services.diagnoser.domain.stages import EVERYTHING, Profile
from shared.diagnosis_wire import TestName

# Tests that are called like their stages, and how often each is made one after the other.
Alone = Literal["compute", "memory", "hostDevice"]

LIMIT_S: Final = 80.0
GPU_LIMIT_S: Final = 420.0
ONE_GPU_NODE_LIMIT_S: Final = 215.0
# The looks before the tests, where all nodes answer, and ending the workers behind them.
LOOKS_S: Final = 20.0
END_S: Final = 5.0
# Beside what a test measures: asking, meeting, and on a GPU opening the device and making a communicator.
_PROBE_S: Final = (2.0, 8.0)
_BEGIN_S: Final = (3.0, 20.0)
_AROUND_S: Final = (0.25, 2.0)
_GPUS_ALONE: Final[Mapping[Alone, int]] = {"compute": 1, "memory": 1, "hostDevice": 1}
_CPUS_ALONE: Final[Mapping[Alone, int]] = {"compute": 2, "memory": 2}
DEEP_S: Final[Mapping[int, float]] = {1: 180.0, 2: 900.0, 3: 2700.0, 4: 7200.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a diagnosis is going to do: `fresh` are nodes that are tested, `deep` the level of NVIDIA's own tests.

    Where `meets` says so, the nodes are tested together: they have never been, or one of them is fresh. For the answer
    to a look `look_s` are waited at most.
    """

    nodes: tuple[str, ...]
    fresh: tuple[str, ...]
    machines: Mapping[str, str]
    devices: Mapping[str, Collection[str]] = field(default_factory=dict)
    profile: Profile = EVERYTHING
    deep: int = 0
    meets: bool = True
    look_s: float = 30.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is put under load."""
        return not self.fresh and not (self.meets and len(self.nodes) > 1)

    @property
    def gpu(self) -> bool:
        """Whether GPUs are tested, which take longer."""
        return not self.is_idle and any(self.devices.get(node) for node in self.fresh or self.nodes)

    @property
    def shares(self) -> int:
        """How many nodes are one machine's at most."""
        return max(Counter(self.machines.get(node, node) for node in self.nodes).values())

    @property
    def device_count(self) -> int:
        """How many devices a node has at most."""
        return max((len(self.devices.get(node, ())) for node in self.fresh), default=0)


def limit_s(plan: Plan) -> float:
    """After so many seconds no further test is waited for, NVIDIA's own left aside."""
    if not plan.gpu:
        return LIMIT_S
    return GPU_LIMIT_S if len(plan.nodes) > 1 else ONE_GPU_NODE_LIMIT_S


def left_s(plan: Plan, took_s: float) -> float:
    """How long tests may take at most, where what was before them took so long."""
    return max(min(limit_s(plan), LOOKS_S + limit_s(plan) - took_s), 0.0)


def budget_s(plan: Plan) -> float:
    """Seconds, where no suspect turns up."""
    if plan.is_idle:
        return _PROBE_S[plan.gpu]
    alone = plan.shares * _alone_s(plan) if plan.fresh else 0.0
    tests = min(_BEGIN_S[plan.gpu] + alone + _together_s(plan), limit_s(plan))
    return round(_PROBE_S[plan.gpu] + tests + _deep_s(plan), 1)


def most_s(plan: Plan) -> float:
    """Seconds that it never takes longer than, whatever is found, and where nodes do not answer."""
    tests = 0.0 if plan.is_idle else LOOKS_S + limit_s(plan)
    return max(tests, 2 * plan.look_s) + _deep_s(plan) + END_S


def _deep_s(plan: Plan) -> float:
    return plan.shares * DEEP_S[plan.deep] if plan.deep else 0.0


def _alone_s(plan: Plan) -> float:
    """The tests of one node."""
    if plan.gpu:
        pairs = len(list(combinations(range(plan.device_count), 2)))
        at_once = max(plan.device_count // 2, 1)
        several = plan.device_count > 1
        links = pairs / at_once * _test_s(plan, "link") + _test_s(plan, "local") if several else 0.0
        alone = _GPUS_ALONE
    else:
        links, alone = _test_s(plan, "local"), _CPUS_ALONE
    seconds = sum((times * _test_s(plan, test) for test, times in alone.items() if plan.profile.has(test)), 0.0)
    return seconds + (links if plan.profile.has("devices") else 0.0)


def _together_s(plan: Plan) -> float:
    """The tests of several nodes."""
    if len(plan.nodes) < 2:
        return 0.0
    pairs = _rounds(plan) * _test_s(plan, "exchange") if plan.profile.has("pairs") else 0.0
    return pairs + (_test_s(plan, "gang") if plan.profile.has("gang") else 0.0)


def _rounds(plan: Plan) -> int:
    """How many tests of pairs are made one after the other."""
    screened = (screening(plan.nodes, {}, number) for number in range(SCREENING_ROUNDS))
    return sum(len(waves(pairs, plan.machines)) for pairs in screened)


def _test_s(plan: Plan, test: TestName) -> float:
    return plan.profile.timing(test, gpu=plan.gpu).work_s + _AROUND_S[plan.gpu]
