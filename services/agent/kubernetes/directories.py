"""Directories of the node that jobs mount: those that the chart shows to the agent are looked at, others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from services.agent.prober import look_at_mounts

SHOWN_BELOW: Final = Path("/host/directories")


class NodeDirectories:
    """Looks at what lies in the directories that are `shown` below `root`."""

    def __init__(self, shown: Sequence[str], root: Path = SHOWN_BELOW) -> None:
        self._shown = [each.rstrip("/") for each in shown]
        self._root = root

    async def look(self, places: Mapping[str, bool]) -> Mapping[str, tuple[str, ...]]:
        """Which places are `unreachable` or `read_only`, and which cannot be looked at (`unlooked`)."""
        visible = {place: writable for place, writable in places.items() if self._is_shown(place)}
        found = await look_at_mounts(self._root, visible) if visible else {}
        return {**found, "unlooked": tuple(place for place in places if place not in visible)}

    def _is_shown(self, place: str) -> bool:
        return any(place == each or place.startswith(f"{each}/") for each in self._shown)
