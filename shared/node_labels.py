"""Labels of nodes that the platform itself reads: written by engines, told by `node.reported`, read by services."""

from __future__ import annotations

from typing import Final

# Label with the name of the machine that a node is, or is a share of; its agent answers for the node.
MACHINE_LABEL: Final = "machine"
# Labels that say where a node stands in the network: the switch that it hangs on, and the one above that.
LEAF_LABEL: Final = "leaf"
SPINE_LABEL: Final = "spine"
