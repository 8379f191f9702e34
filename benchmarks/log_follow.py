"""How long it takes from a replica's write to a follower: a hundred replicas, a real agent, a real service.

Each replica's log gets a line with the time of its writing about once a second; one client follows all of them. Agent,
service, nats-server and the client share this machine's cores with the hundred writers.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

from shared.bus.provision import provision
from tests.support.logs import Running, agent_running, keeping_logs, start_replica, submit
from tests.support.nats import NatsServer

REPLICAS = 100


def measure(work: Path, seconds: float) -> list[float]:
    """Seconds from each write to its arrival."""
    return asyncio.run(_measure(work, seconds))


async def _measure(work: Path, seconds: float) -> list[float]:
    server = NatsServer(work / "nats")
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    home = work / "home"
    home.mkdir(parents=True)
    took: list[float] = []
    try:
        async with keeping_logs(bus, home) as kept, agent_running(home, bus.options.url):
            job = await submit(bus, replicas=REPLICAS)
            replicas = [start_replica(home, job, index) for index in range(REPLICAS)]
            async with kept.client().stream("GET", f"/v1/logs/{job}/follow") as answer:
                reading = asyncio.create_task(_arrivals(answer.aiter_lines(), took))
                await asyncio.gather(*(_write(replica, index, seconds) for index, replica in enumerate(replicas)))
                await asyncio.sleep(1)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            for replica in replicas:
                replica.end()
    finally:
        await bus.close()
        server.kill()
    return took


async def _write(replica: Running, index: int, seconds: float) -> None:
    draw = random.Random(index)  # a repeatable load
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        await asyncio.sleep(draw.uniform(0.5, 1.5))
        replica.write(f"written {time.time():.6f}\n".encode())


async def _arrivals(lines: AsyncIterator[str], took: list[float]) -> None:
    async for line in lines:
        if line.startswith("data: "):
            now = time.time()
            texts = json.loads(line.removeprefix("data: ")).get("text", "").splitlines()
            took += [now - float(each.removeprefix("written ")) for each in texts]
