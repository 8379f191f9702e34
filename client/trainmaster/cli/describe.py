"""`trainmaster describe`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.rendering.description import description


@click.command("describe")
@click.argument("job")
@output_option
def command(job: str, output: str) -> None:
    """Show one job on a page: state, roles, placement, exits."""
    with connected() as client:
        found = client.job(job)
    Screen.here().result(output, found.document, lambda: description(found, datetime.now(UTC)))
