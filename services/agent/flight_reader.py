"""Reads a flight recorder's dump from stdin and prints its open collectives as JSON; run as `python -I -S`.

The dump is a pickle that user code may have made up. So no class is ever looked up, the process has little memory and
little time and no descriptor but its pipes, and whatever goes wrong is an end without output.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
from typing import Any

MEMORY_MAX_BYTES = 1 << 30
CPU_MAX_S = 8
DUMP_MAX_BYTES = 64 << 20
COLLECTIVES_MAX = 20
DONE = "completed"


class PlainUnpickler(pickle.Unpickler):
    """Numbers, texts, lists and dictionaries only."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Refuse every class and function."""
        raise pickle.UnpicklingError(f"{module_name}.{global_name} is no plain data")


def opened(dump: dict[str, Any]) -> list[dict[str, Any]]:
    """The collectives that are not done, the oldest first."""
    entries = [each for each in dump["entries"] if each.get("state") != DONE]
    return [_shown(each) for each in entries[:COLLECTIVES_MAX]]


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    group = entry.get("process_group") or entry.get("pg_id", "")
    return {
        "name": entry.get("profiling_name", ""),
        "state": entry.get("state", ""),
        "sequence": entry.get("collective_seq_id", entry.get("seq_id", 0)),
        "group": " ".join(map(str, group)) if isinstance(group, list | tuple) else str(group),
        "sizes": str(entry.get("input_sizes", ""))[:200],
    }


def main() -> None:
    """Read, print."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX_S, CPU_MAX_S))
    file = sys.stdin.buffer
    if file.seek(0, 2) > DUMP_MAX_BYTES:
        sys.exit("the dump is too large")
    file.seek(0)
    json.dump(opened(PlainUnpickler(file).load()), sys.stdout)


if __name__ == "__main__":
    main()
