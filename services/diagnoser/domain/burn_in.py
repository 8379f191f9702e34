"""Whether a rank stands out in the first steps of a real job, which are a test of its node that costs nothing. Pure.

In synchronous training all ranks take the same time for a step, since all wait for the slowest. What tells them apart
is how that time is made up: the slow one needs long for its own part and hardly waits, the others wait for it. So a
rank is suspect where its own part (waiting for data left out, since a slow pipeline is no fault of the device), in the
middle over all windows, stands out from that of the others by `STEP`'s effect and `EXCESS_MS`. A hiccup proves nothing:
in `PERSISTENT` of the windows, each of which is the middle of several steps, it must be slower by half of the effect at
least, and, where waits are known, the others must wait longer than it does by half of what it is slower. Where only
step times are known, these are compared.

Where more than a quarter of the nodes look slow it is the work that is uneven, and not the nodes.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from services.diagnoser.domain.figures import FigureRule, Ordinary, Peers, rule_on
from shared.events import BurnInJudged, RankSteps, SlowRank, StepsMeasured

STEP: Final = FigureRule("time for a step", "ms", more_is_better=False, effect=0.15, noise=0.02)
EXCESS_MS: Final = 2.0
FEWEST_RANKS: Final = 3
FEWEST_WINDOWS: Final = 4
PERSISTENT: Final = 0.8
_WAITED_FOR: Final = 0.5
_SLOW_NODES: Final = 4
_MUCH: Final = 10

Place = tuple[str, int]
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class _Share:
    """What one rank needed itself in a window, and how long it waited for others, where that is known."""

    rank: RankSteps
    own_ms: float
    wait_ms: float | None


@dataclass(frozen=True, slots=True)
class _Compared:
    """One rank in one window beside the others: the middle of their own parts, and how much longer they waited."""

    own_ms: float
    middle_ms: float
    others_wait_ms: float | None

    @property
    def is_slow(self) -> bool:
        """Whether it needs longer than the others, and they wait for it."""
        excess_ms = self.own_ms - self.middle_ms
        is_waited_for = self.others_wait_ms is None or self.others_wait_ms >= _WAITED_FOR * excess_ms
        return excess_ms >= STEP.effect / 2 * self.middle_ms and is_waited_for


def judge_steps(measured: StepsMeasured, node_of: Mapping[Place, str]) -> BurnInJudged:
    """The ranks that held others up, by what was measured; `node_of` has the node of each replica."""
    groups = [_compare(peers) for peers in _groups(measured)]
    compared = {rank: found for group in groups for rank, found in group.items()}
    outliers = {rank for group in groups for rank in _outliers(group)}
    persistent = (rank for rank in measured.ranks if _key(rank) in outliers and _is_persistent(compared[_key(rank)]))
    slow = [each for rank in persistent if (each := _slow(rank, compared[_key(rank)], node_of))]
    suspects, message = _bounded(slow, len(set(node_of.values())))
    enough = any(len(found) >= FEWEST_WINDOWS for found in compared.values())
    middles = [each.middle_ms for found in compared.values() for each in found]
    return BurnInJudged(
        source=measured.source,
        ranks=len(measured.ranks),
        last_step=max((step for rank in measured.ranks for step in rank.last_steps), default=0),
        middle_ms=round(statistics.median(middles), 3) if middles else None,
        suspects=suspects,
        message=message if enough else f"too few steps of at least {FEWEST_RANKS} ranks to compare",
    )


def _groups(measured: StepsMeasured) -> Iterable[Sequence[RankSteps]]:
    """Ranks that do the same work: those of one role, and all that were given the hook."""
    if measured.source == "hook":
        return (measured.ranks,)
    groups: defaultdict[str, list[RankSteps]] = defaultdict(list)
    for rank in measured.ranks:
        groups[rank.role].append(rank)
    return groups.values()


def _compare(peers: Sequence[RankSteps]) -> dict[Key, list[_Compared]]:
    """Each rank in each window that enough ranks have."""
    windows: defaultdict[int, list[_Share]] = defaultdict(list)
    for rank in peers:
        for step, share in _shares(rank):
            windows[step].append(share)
    found: defaultdict[Key, list[_Compared]] = defaultdict(list)
    for shares in windows.values():
        if len(shares) >= FEWEST_RANKS:
            for share, each in zip(shares, _beside(shares), strict=True):
                found[_key(share.rank)].append(each)
    return found


def _key(rank: RankSteps) -> Key:
    return rank.role, rank.index, rank.rank


def _shares(rank: RankSteps) -> Iterator[tuple[int, _Share]]:
    for place, (step, compute_ms) in enumerate(zip(rank.last_steps, rank.compute_ms, strict=False)):
        data_ms = rank.data_ms[place] if place < len(rank.data_ms) else 0.0
        wait_ms = rank.wait_ms[place] if place < len(rank.wait_ms) else None
        yield step, _Share(rank, max(compute_ms - data_ms, 0.0), wait_ms)


def _beside(shares: Sequence[_Share]) -> Iterator[_Compared]:
    own, waits = Peers(share.own_ms for share in shares), [share.wait_ms for share in shares]
    known = [wait for wait in waits if wait is not None]
    wait_ms = statistics.median(known) if len(known) == len(shares) else None
    for share in shares:
        longer_ms = wait_ms - share.wait_ms if wait_ms is not None and share.wait_ms is not None else None
        yield _Compared(share.own_ms, _ordinary(own, share.own_ms).median, longer_ms)


def _ordinary(peers: Peers, value: float) -> Ordinary:
    others = peers.beside(value)
    return others if isinstance(others, Ordinary) else Ordinary(others, "the others")


def _outliers(compared: Mapping[Key, Sequence[_Compared]]) -> Iterator[Key]:
    """Ranks whose own part stands out in the middle over all windows."""
    middles = {rank: statistics.median(each.own_ms for each in found) for rank, found in compared.items()}
    peers = Peers(middles.values())
    for rank, own_ms in middles.items():
        ordinary = _ordinary(peers, own_ms)
        if own_ms - ordinary.median >= EXCESS_MS and rule_on(STEP, own_ms, ordinary).is_bad:
            yield rank


def _is_persistent(compared: Sequence[_Compared]) -> bool:
    slow = sum(each.is_slow for each in compared)
    return len(compared) >= FEWEST_WINDOWS and slow >= PERSISTENT * len(compared)


def _slow(rank: RankSteps, compared: Sequence[_Compared], node_of: Mapping[Place, str]) -> SlowRank | None:
    """What is told of the rank; None where it was never placed."""
    node, slow = node_of.get((rank.role, rank.index)), [each for each in compared if each.is_slow]
    if node is None:
        return None
    own_ms = statistics.median(each.own_ms for each in slow)
    middle_ms = statistics.median(each.middle_ms for each in slow)
    return SlowRank(
        role=rank.role,
        index=rank.index,
        rank=rank.rank,
        node=node,
        compute_ms=round(own_ms, 3),
        middle_ms=round(middle_ms, 3),
        windows=len(slow),
        why=(
            f"rank {rank.rank} ({rank.role}-{rank.index}) needs {own_ms:.4g} ms for a step, "
            f"{_part(own_ms, middle_ms)} {middle_ms:.4g} ms that the others need in the middle, "
            f"in {len(slow)} of {len(compared)} windows{_waited(slow)}"
        ),
    )


def _part(own_ms: float, middle_ms: float) -> str:
    times = own_ms / middle_ms if middle_ms else math.inf
    return f"{100 * times:.0f} % of the" if times < _MUCH else f"{times:.0f} times the"


def _waited(slow: Sequence[_Compared]) -> str:
    waits = [each.others_wait_ms for each in slow if each.others_wait_ms is not None]
    return f"; they wait {statistics.median(waits):.4g} ms longer than it does" if waits else ""


def _bounded(slow: Sequence[SlowRank], nodes: int) -> tuple[tuple[SlowRank, ...], str]:
    """The suspects, the worst first; none where they are on too many nodes to be the nodes' fault."""
    on = {each.node for each in slow}
    if len(on) > max(1, nodes // _SLOW_NODES):
        return (), f"ranks on {len(on)} of {nodes} nodes need longer than the rest: the work is uneven, not the nodes"
    return tuple(sorted(slow, key=lambda each: each.middle_ms - each.compute_ms)), ""
