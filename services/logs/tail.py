"""Where the last lines of a log begin; found by reading backwards, in steps that double, up to a limit."""

from __future__ import annotations

from typing import Final

from services.logs.adapters.files import StoredLog
from services.logs.adapters.store import LogStore
from services.logs.domain.lines import tail_start

TAIL_MAX_BYTES: Final = 8 * 1024 * 1024
_FIRST_STEP_BYTES: Final = 64 * 1024


async def start_of_tail(store: LogStore, log: StoredLog, lines: int, limit_bytes: int = TAIL_MAX_BYTES) -> int:
    """Offset of the last `lines` lines; not more than `limit_bytes` before the end, then in the middle of a line."""
    size, step = log.size, _FIRST_STEP_BYTES
    while True:
        start = max(0, size - min(step, limit_bytes))
        found = tail_start(await store.read(log, start, size), lines)
        if found is not None:
            return start + found
        if start == 0 or step >= limit_bytes:
            return start
        step *= 2
