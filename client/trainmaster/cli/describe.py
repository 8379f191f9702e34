"""`trainmaster describe`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option
from trainmaster.client import Client
from trainmaster.errors import ApiError
from trainmaster.rendering.description import description
from trainmaster.usage import Bill


@click.command("describe")
@click.argument("job")
@output_option
def command(job: str, output: str) -> None:
    """Show one job on a page: state, roles, placement, exits."""
    with connected() as client:
        found = client.job(job)
        bill = _bill(client, found.id) if output == TABLE else None
    Screen.here().result(output, found.document, lambda: description(found, datetime.now(UTC), bill))


def _bill(client: Client, job: str) -> Bill | None:
    """What the job costs; None where the platform cannot say so, which is no reason to show nothing."""
    try:
        return client.bill(job)
    except ApiError:
        return None
