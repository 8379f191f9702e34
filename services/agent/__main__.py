"""`python -m services.agent`: the node agent of this machine; ends cleanly on SIGTERM and Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal

from services.agent.alone import is_alone, lock_of
from services.agent.bootstrap import Agent
from services.agent.settings import Settings


async def _main(settings: Settings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    with lock_of(settings.home) as lock:
        if await is_alone(lock, stopping):
            await Agent(settings).run(stopping)


def main() -> None:
    """Run the agent with the settings of the environment."""
    settings = Settings.from_environment(os.environ)
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s agent %(message)s")
    allowed_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed_files, allowed_files))
    asyncio.run(_main(settings))


main()
