"""What torchrun says about the first of its processes that failed, read from the end of its log.

The block begins with a line `Root Cause (first observed failure):`, and has a line each for time, host, rank and exit
code. It is what one launcher saw on one node; several launchers each print a block of their own. Text that only looks
like a block, with a host that the job does not have, names nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from services.watchdog.domain.rules import LineRule

ROOT_CAUSE: Final = "torchrun/root-cause"
BLOCK_LINES: Final = 7
HEADER: Final = LineRule.of_texts(ROOT_CAUSE, "Root Cause (first observed failure):")

_FIELD: Final = re.compile(r"^\s*(?P<name>rank|exitcode|host)\s*: (?P<value>\S.*)$")
_TOLD: Final = ("rank", "exitcode", "host")
_HOST: Final = re.compile(r"\bhost ([^\s,]{1,255})")


def told(lines: Sequence[str]) -> str:
    """The block as one line: `rank 3 (local_rank: 1), exitcode 1 (pid: 77), host tj-x-1-worker-1`."""
    fields = {match["name"]: match["value"].strip() for match in map(_FIELD.match, lines) if match}
    return ", ".join(f"{name} {fields[name]}" for name in _TOLD if name in fields)


def host_in(line: str) -> str:
    """The host in a line that `told` made, without its domain; empty where there is none."""
    match = _HOST.search(line)
    return match[1].split(".")[0] if match else ""
