"""`trainmaster top`."""

from __future__ import annotations

import sys
import time

import click
from rich.live import Live

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.client import Client
from trainmaster.documents.resources import ReplicaResources
from trainmaster.rendering.resources import resource_table

_PAUSE_S = 2.0


@click.command("top")
@click.argument("job")
@click.option("--attempt", type=click.IntRange(1), help="The attempt; default: the last one.")
@click.option("--once", is_flag=True, help="Print once, as without a terminal.")
@output_option
def command(job: str, attempt: int | None, output: str, *, once: bool) -> None:
    """Show what each replica of a job uses: CPU, memory, GPUs.

    On a terminal it is shown anew until the job has ended or Ctrl-C. Samples are some seconds apart; memory that
    processes share is counted in each of them.
    """
    screen = Screen.here()
    with connected() as client:
        found = client.resources(job, attempt=attempt)
        if output != TABLE:
            click.echo(serialised({"replicas": [each.document for each in found]}, output))
        elif not found:
            screen.say(f"{job} was not sampled so far; the first sample comes some seconds after a replica's start")
        elif once or not sys.stdout.isatty():
            screen.out.print(resource_table(found))
        else:
            _watch(client, job, attempt, found, screen)


def _watch(client: Client, job: str, attempt: int | None, found: tuple[ReplicaResources, ...], screen: Screen) -> None:
    with Live(resource_table(found), console=screen.out, auto_refresh=False) as live:
        while not client.job(job).ended:
            time.sleep(_PAUSE_S)
            live.update(resource_table(client.resources(job, attempt=attempt)), refresh=True)
