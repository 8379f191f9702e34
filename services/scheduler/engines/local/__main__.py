"""`python -m services.scheduler.engines.local [--no-sandbox] -- COMMAND`: run one command as a replica runs.

For trying out what a replica sees and can do. Its output comes to the terminal, the exit code is the command's own, and
the time that the start took is said at the end. Nothing stays behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import click

from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from services.scheduler.ports.reports import ReplicaExited, ReplicaStarted
from shared.events import ReplicaExit
from shared.ids import new_job_id


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--sandbox/--no-sandbox", default=True, help="Whether bubblewrap is used.")
@click.argument("command")
def main(command: str, *, sandbox: bool) -> None:
    """Run COMMAND as a replica."""
    with tempfile.TemporaryDirectory(prefix="trainmaster-try-") as home:
        settings = LocalSettings(Path(home), path_variable=os.environ["PATH"], sandboxed=sandbox)
        end = asyncio.run(_run(settings, command))
    sys.exit(end.code if end.code is not None else 128 + (end.signal or 0))


async def _run(settings: LocalSettings, command: str) -> ReplicaExit:
    engine = await LocalEngine.open(settings)
    gang = GangStart(new_job_id(), 1, "", "", "", (ReplicaStart("worker", 0, "here", command, env={}),))
    begun = time.perf_counter()
    await engine.start(gang)
    async for observation in engine.observe():
        if isinstance(observation, ReplicaStarted):
            click.echo(f"started after {(time.perf_counter() - begun) * 1000:.0f} ms", err=True)
        elif isinstance(observation, ReplicaExited):
            log = settings.home / "gangs" / gang.id / "replicas" / "worker-0" / "log"
            click.echo(log.read_bytes(), nl=False)
            click.echo(f"ended after {(time.perf_counter() - begun) * 1000:.0f} ms: {observation.exit!r}", err=True)
            engine.close()
            return observation.exit
    raise AssertionError("observe() ends only with its reader")


if __name__ == "__main__":
    main()
