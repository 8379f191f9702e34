"""Pretended faults that no test has met: what they change was not measured, so a green report says nothing of them.

A fault of a link shows in a test of that pair alone, and one of collectives only where the gang makes some with the
node. Faults of what is looked at are met wherever the node answers. Pure.
"""

from __future__ import annotations

from services.diagnoser.domain.gathered import Gathered
from services.diagnoser.domain.injection import Injection


def unmet(node: str, gathered: Gathered) -> tuple[str, ...]:
    """The texts of those faults of the node that were not met; a link's are with the first node that it names."""
    own = (fault for fault in gathered.injections if fault.nodes[0] == node)
    return tuple(fault.text for fault in own if not _is_met(fault, gathered))


def _is_met(fault: Injection, gathered: Gathered) -> bool:
    node = fault.nodes[0]
    pairs = [set(value.pair.nodes) for values in gathered.rounds for value in values]
    match fault.kind:
        case "slow-link" | "damaged-link":
            return set(fault.nodes) in pairs
        case "flaky":
            return any(node in pair for pair in pairs)
        case "wrong-collective":
            return gathered.gang is not None and node in gathered.gang.nodes
        case "slow-memory":
            return "memory" in gathered.looks.get(node, {})
        case _:
            return True
