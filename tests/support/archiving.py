"""What must have happened before a job may be archived."""

from __future__ import annotations

from shared.bus import Bus
from shared.bus.streams import JOBS, REACTIONS


async def acknowledge_all(bus: Bus) -> None:
    """Do what the services do once they have dealt with events of jobs: acknowledge them."""
    for reaction in (each for each in REACTIONS if each.stream == JOBS):
        consumer = await bus.js.pull_subscribe_bind(reaction.durable, stream=JOBS)
        while (await bus.js.consumer_info(JOBS, reaction.durable)).num_pending:
            for message in await consumer.fetch(10):
                await message.ack_sync()
        await consumer.unsubscribe()
