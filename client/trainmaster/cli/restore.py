"""`trainmaster restore`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.decoding import Fields
from trainmaster.rendering.style import state


@click.command("restore")
@click.argument("node")
@click.option("--reason", required=True, help="Why; it is kept with your name.")
@click.option("--force", is_flag=True, help="Use it though a diagnosis found it bad, and without a test.")
@output_option
def command(node: str, reason: str, output: str, *, force: bool) -> None:
    """Use a node again. One that a diagnosis found bad is tested first, and returns when it passes."""
    with connected() as client:
        document = client.nodes.restore(node, reason, force=force)
    screen, status = Screen.here(), Fields.of(document).fields("status")
    if status.fields("returning").document:
        screen.say("it is tested as soon as no job is on it, and returns when it passes; --force returns it untested")
    screen.result(output, document, lambda: state(status.text("state")))
