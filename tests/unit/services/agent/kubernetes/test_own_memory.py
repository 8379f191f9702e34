"""The memory that the agent's container has left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from services.agent.kubernetes.own_memory import OwnMemory

MIB = 1 << 20
UNIFIED = {
    "memory.max": f"{512 * MIB}\n",
    "memory.current": f"{400 * MIB}\n",
    "memory.stat": f"anon 1\ninactive_file {250 * MIB}\n",
    "memory.events": "low 0\nmax 4\noom_kill 3\n",
}
FIRST = {
    "memory/memory.limit_in_bytes": f"{512 * MIB}\n",
    "memory/memory.usage_in_bytes": f"{400 * MIB}\n",
    "memory/memory.stat": f"inactive_file 0\ntotal_inactive_file {250 * MIB}\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
UNLIMITED = [{**UNIFIED, "memory.max": "max\n"}, {**FIRST, "memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}, {}]


def memory(root: Path, files: Mapping[str, str]) -> OwnMemory:
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return OwnMemory(root)


@pytest.mark.parametrize("files", [UNIFIED, FIRST])
def test_what_is_left_and_how_often_it_was_not_enough(tmp_path: Path, files: Mapping[str, str]) -> None:
    own = memory(tmp_path, files)
    assert own.shortage(0) == ""
    assert own.kills() == 3
    assert own.shortage(1).startswith("the agent has 362Mi of memory left, and tests with PyTorch need ")


@pytest.mark.parametrize("files", UNLIMITED)
def test_without_a_limit_nothing_is_short(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert memory(tmp_path, files).shortage(64) == ""
