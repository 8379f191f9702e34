from __future__ import annotations

import asyncio
import os
from pathlib import Path

from services.scheduler.engines.local.bell import Bell


async def test_a_ring_wakes_the_listener_and_is_heard_once(tmp_path: Path):
    bell = Bell(tmp_path / "bell")
    heard = asyncio.Event()
    with bell.heard_by(heard.set):
        bell.ring()
        bell.ring()
        await asyncio.wait_for(heard.wait(), 45)
        heard.clear()
        await asyncio.sleep(0)

        assert not heard.is_set()
    bell.close()


async def test_runners_of_a_bell_that_was_closed_ring_the_next_one(tmp_path: Path):
    first = Bell(tmp_path / "bell")
    runner = os.dup(first.fd)
    first.close()
    second = Bell(tmp_path / "bell")
    heard = asyncio.Event()
    with second.heard_by(heard.set):
        os.write(runner, b"!")
        await asyncio.wait_for(heard.wait(), 45)
    os.close(runner)
    second.close()


def test_ringing_never_blocks(tmp_path: Path):
    bell = Bell(tmp_path / "bell")
    for _ in range(100_000):
        bell.ring()
    bell.close()
