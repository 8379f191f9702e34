"""`trainmaster evidence`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.evidence import bundle, chosen, taken
from trainmaster.rendering.evidence import evidence


@click.command("evidence")
@click.argument("job")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt; the last that has any otherwise.")
@output_option
def command(job: str, attempt: int | None, output: str) -> None:
    """Show what every rank of a silent job was doing: stacks, states, last lines.

    It is taken when a job with hangDetection has been silent for a third of the time, and again before a hang ends it.
    """
    with connected() as client:
        document = bundle(client, job, chosen(taken(client, job), job, attempt).digest)
    Screen.here().result(output, document, lambda: evidence(document))
