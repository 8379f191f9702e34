"""As how many nodes one machine is offered, and under which switches these stand.

Nodes, leaves and spines are numbered through and divided evenly: the first nodes stand under the first leaf, the first
leaves under the first spine. No leaves and no spines, and nodes have no such label.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.node_labels import LEAF_LABEL, SPINE_LABEL


@dataclass(frozen=True, slots=True)
class Split:
    """One machine as a small cluster."""

    nodes: int = 1
    leaves: int = 0
    spines: int = 0

    @property
    def problem(self) -> str:
        """What is wrong with the numbers; empty where nothing is."""
        if self.leaves > self.nodes:
            return f"{self.leaves} leaves are more than the {self.nodes} nodes that stand under them"
        if self.spines > self.leaves:
            return f"{self.spines} spines are more than the {self.leaves} leaves that stand under them"
        return ""

    def labels(self, number: int) -> dict[str, str]:
        """Where one of the nodes stands."""
        if not self.leaves:
            return {}
        leaf = number * self.leaves // self.nodes
        spine = {SPINE_LABEL: f"spine-{leaf * self.spines // self.leaves}"} if self.spines else {}
        return {LEAF_LABEL: f"leaf-{leaf}", **spine}
