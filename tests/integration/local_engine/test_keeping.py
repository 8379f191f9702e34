"""What a failed gang leaves is held for as long as somebody wants to look at it, over restarts, and then removed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.gangs import CodeInline
from shared.clock import ManualClock
from tests.support.local_engine import bench, gang_of, replica_dir


async def test_code_and_tmp_are_held_until_the_time_and_then_removed(settings: LocalSettings, home: Path):
    clock = ManualClock()
    until = clock.now() + timedelta(hours=1)
    gang = gang_of("echo clue > /tmp/clue; exit 1", code=CodeInline({"a.py": "x"}))
    place = home / "gangs" / gang.id
    async with bench(settings, clock) as desk:
        await desk.run(gang)
        await desk.engine.forget(gang.id, until)
        (replica_dir(home, gang) / "shipped.json").write_text('{"bytes": 0}')
        [kept] = desk.engine.kept(gang.job)
        assert (kept.attempt, kept.path, kept.until) == (1, str(place), until)
        assert desk.engine.kept("tj-another") == ()
    async with bench(settings, clock) as again:
        await again.until_caught_up()
        await clock.advance(3599)
        await asyncio.sleep(3 * settings.sweep_s)
        assert [each.until for each in again.engine.kept(gang.job)] == [until]
        assert (replica_dir(home, gang) / "tmp/clue").read_text() == "clue\n"
        assert (place / "code/a.py").read_text() == "x"
        await clock.advance(2)
        async with asyncio.timeout(45):
            while place.exists():
                await asyncio.sleep(0.01)
        assert again.engine.kept(gang.job) == ()
