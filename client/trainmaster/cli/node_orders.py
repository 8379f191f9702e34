"""What `drain` and `quarantine` have in common: an order about a node, with the reason for it."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.decoding import Fields
from trainmaster.rendering.style import state


def order_command(verb: str, description: str) -> click.Command:
    """The command that gives this order."""

    @click.command(verb, help=description)
    @click.argument("node")
    @click.option("--reason", required=True, help="Why; it is kept with your name.")
    @output_option
    def command(node: str, reason: str, output: str) -> None:
        with connected() as client:
            document = client.nodes.order(node, verb, reason)
        present = Fields.of(document).fields("status").text("state")
        Screen.here().result(output, document, lambda: state(present))

    return command
