"""`python -m tests.support.stalled_leader URL NAME JOB GO`: leads, stalls, and then puts a placement on record.

As soon as it leads it says so on standard output and blocks its event loop until the file GO is there, as a process
does that is halted or starved: it cannot notice meanwhile that its lease has gone. Then it says what came of its write.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from services.scheduler.control.journal import Journal
from services.scheduler.control.leadership import Leadership
from services.scheduler.domain.reconcile import Fact
from shared import events as ev
from shared.bus import Bus, BusOptions, Fence, FencedError
from shared.clock import SystemClock
from shared.jobs import Job


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def lead(bus: Bus, fence: Fence, job_id: str, go: Path) -> None:
    job = await bus.load_job(job_id)
    assert job is not None
    say(f"leads {fence.epoch}")
    while not go.exists():
        time.sleep(0.01)
    # What was decided before is written even if the lost lease is noticed while that is under way.
    await asyncio.shield(asyncio.create_task(write(Journal(bus, fence), job)))


async def write(journal: Journal, job: Job) -> None:
    try:
        await journal.append(job, [Fact(ev.Placed(cluster="main", roles=()), SystemClock().now(), 1)])
        say("written")
    except FencedError as refusal:
        say(f"refused: {refusal.message}")


async def main(url: str, name: str, job: str, go: str) -> None:
    bus = await Bus.connect(BusOptions(url, "", "", name=name))
    await Leadership(bus, SystemClock(), name).run(lambda fence: lead(bus, fence, job, Path(go)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
