"""The memory of the agent's own container: how much is left, and how many processes were ended for want of it.

The container sees its own control group as the root of them, version 1 or 2. What pages of files that nobody uses hold
counts as free, since the kernel gives them up first.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from shared.units import MIB, format_bytes

OWN_GROUP: Final = Path("/sys/fs/cgroup")
# What a diagnosis with PyTorch on CPUs was seen to take, and what each GPU's process may take beside: CUDA's own
# context, buffers of NCCL, and the blocks that are copied between host and device.
CPUS_BYTES: Final = 320 * MIB
GPU_BYTES: Final = 1536 * MIB
_NO_LIMIT_BYTES: Final = 1 << 60


class OwnMemory:
    """Reads the control group at `root`."""

    def __init__(self, root: Path = OWN_GROUP) -> None:
        self._root = root if (root / "memory.max").exists() else root / "memory"

    def shortage(self, gpu_count: int) -> str:
        """Why a diagnosis with PyTorch would end for want of memory; empty where it would not."""
        needed, left = CPUS_BYTES + gpu_count * GPU_BYTES, self._left_bytes()
        if left is None or left >= needed:
            return ""
        return (
            f"the agent has {format_bytes(left)} of memory left, and tests with PyTorch need {format_bytes(needed)}; "
            "give it more (agent.resources of the chart)"
        )

    def kills(self) -> int:
        """How many processes of the container were ended because its memory was used up."""
        return max(
            self._table("memory.events").get("oom_kill", 0), self._table("memory.oom_control").get("oom_kill", 0)
        )

    def _left_bytes(self) -> int | None:
        """None where there is no limit."""
        limit = self._number("memory.max") or self._number("memory.limit_in_bytes")
        used = self._number("memory.current") or self._number("memory.usage_in_bytes")
        if limit is None or used is None or limit >= _NO_LIMIT_BYTES:
            return None
        stat = self._table("memory.stat")
        return max(0, limit - used + stat.get("total_inactive_file", stat.get("inactive_file", 0)))

    def _number(self, name: str) -> int | None:
        """None where there is no such file, or it holds no number (`max`)."""
        with suppress(OSError, ValueError):
            return int((self._root / name).read_text())
        return None

    def _table(self, name: str) -> dict[str, int]:
        with suppress(OSError, ValueError):
            pairs = (line.split() for line in (self._root / name).read_text().splitlines())
            return {key: int(value) for key, value in pairs}
        return {}
