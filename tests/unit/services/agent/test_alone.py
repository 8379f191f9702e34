"""Two agents in one home."""

from __future__ import annotations

import asyncio
from pathlib import Path

from services.agent.alone import is_alone, lock_of


async def test_the_later_agent_begins_when_the_earlier_one_has_ended(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    with lock_of(tmp_path / "home") as later:
        with lock_of(tmp_path / "home") as earlier:
            assert await is_alone(earlier, stopping)
            waiting = asyncio.create_task(is_alone(later, stopping))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting


async def test_one_that_is_asked_to_stop_while_it_waits_does_not_begin(tmp_path: Path) -> None:
    stopping = asyncio.Event()
    with lock_of(tmp_path) as earlier, lock_of(tmp_path) as later:
        assert await is_alone(earlier, stopping)
        waiting = asyncio.create_task(is_alone(later, stopping))
        await asyncio.sleep(0)
        stopping.set()
        assert not await waiting
