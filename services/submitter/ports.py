"""What the submitter's use cases need of the world beside the bus and the catalog."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class Directories(Protocol):
    """Directories of the machine on which replicas run."""

    async def missing(self, paths: Collection[str]) -> frozenset[str]:
        """Those of these absolute paths at which there certainly is nothing."""
        ...
