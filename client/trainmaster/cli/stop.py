"""`trainmaster stop`."""

from __future__ import annotations

from functools import partial

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.interruptions import InterruptionTeller
from trainmaster.cli.screen import Screen, output_option
from trainmaster.rendering.style import state


@click.command("stop")
@click.argument("job")
@click.option("--wait", is_flag=True, help="Return when the job has ended.")
@output_option
def command(job: str, output: str, *, wait: bool) -> None:
    """End a job.

    Its replicas get TERM, and KILL after the grace time of the job. It can be called again, to no harm.
    """
    screen = Screen.here()
    with connected() as client:
        found = client.stop(job)
        if wait and not found.ended:
            screen.say(f"{found.name} is {found.state}; waiting for its end", style="dim")
            found = client.wait(found.id, notice=partial(InterruptionTeller(screen)))
    screen.result(output, found.document, lambda: state(found.state))
