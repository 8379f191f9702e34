"""Disk space of what is kept comes back, and offsets stay what they are."""

from __future__ import annotations

import os
from pathlib import Path

from services.agent.kubernetes.freeing import MARGIN_BYTES, Freeing
from tests.unit.services.agent.test_lanes import Machine


async def test_what_was_kept_a_pass_ago_is_freed_but_for_the_last_of_it(tmp_path: Path):
    machine, size = Machine(tmp_path), 4 * MARGIN_BYTES
    content = os.urandom(size)
    machine.write(content)
    for _ in range(3):
        await machine.passes()
        machine.transit.announce(machine.arrivals)
    log, freeing = machine.directory / "log", Freeing(machine.gangs)
    freeing.make_pass()
    assert log.read_bytes() == content
    freeing.make_pass()
    freed = 3 * MARGIN_BYTES
    assert log.read_bytes() == bytes(freed) + content[freed:]
    assert log.stat().st_blocks * 512 < size // 2
    machine.write(b"more\n")
    await machine.passes()
    assert [chunk.data for chunk in machine.transit.chunks] == [b"more\n"]
