"""`trainmaster describe`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option
from trainmaster.client import Client
from trainmaster.errors import ApiError
from trainmaster.rendering.description import description
from trainmaster.rendering.sandboxes import held
from trainmaster.rendering.style import text
from trainmaster.usage import Bill


@click.command("describe")
@click.argument("job")
@click.option("--attempt", type=click.IntRange(1), help="This attempt only.")
@output_option
def command(job: str, attempt: int | None, output: str) -> None:
    """Show one job on a page: state, roles, placement, exits."""
    screen = Screen.here()
    with connected() as client:
        found = client.job(job)
        if attempt is not None:
            found = found.only_attempt(attempt)
        bill = _bill(client, found.id) if output == TABLE else None
        kept = client.kept_sandboxes(found.id) if output == TABLE and found.spec.text("keepFor") else ()
    screen.result(output, found.document, lambda: description(found, datetime.now(UTC), bill))
    if lines := held(found, kept):
        screen.out.print(text("\n".join(lines)))


def _bill(client: Client, job: str) -> Bill | None:
    """What the job costs; None where the platform cannot say so, which is no reason to show nothing."""
    try:
        return client.bill(job)
    except ApiError:
        return None
