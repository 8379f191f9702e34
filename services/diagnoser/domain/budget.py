"""How long a diagnosis will take at most, told before it begins. Pure.

The pairs of machines are tested at the same time, those of shares of one machine one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from services.diagnoser.domain.search import MAX_ROUNDS, SCREENING_ROUNDS

PROBE_S: Final = 2.0
MEMORY_S: Final = 0.6
PAIR_S: Final = 0.4
REDUCE_S: Final = 1.0


def budget_s(nodes: Collection[str], fresh: Collection[str], machines: Mapping[str, str], limit_s: float) -> float:
    """Seconds, where no suspect turns up; with suspects up to the limit."""
    if not fresh:
        return PROBE_S
    shares = max(Counter(machines.get(node, node) for node in nodes).values())
    pairs = SCREENING_ROUNDS * PAIR_S * max(shares / 2, 1) if len(nodes) > 1 else 0.0
    reduce_s = REDUCE_S if len(nodes) > 1 else 0.0
    return round(PROBE_S + min(MEMORY_S * shares + pairs + reduce_s, limit_s), 1)


def most_s(nodes: Collection[str], fresh: Collection[str], machines: Mapping[str, str], limit_s: float) -> float:
    """Seconds, where as many suspects are tested as can be."""
    least = budget_s(nodes, fresh, machines, limit_s)
    if not fresh or len(nodes) < 3:
        return 2 * least
    shares = max(Counter(machines.get(node, node) for node in nodes).values())
    return round(min(least + MAX_ROUNDS * PAIR_S * max(shares / 2, 1), 2 * PROBE_S + limit_s), 1)
