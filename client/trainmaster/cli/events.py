"""`trainmaster events`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.interruptions import InterruptionTeller
from trainmaster.cli.screen import TABLE, Screen, json_line, output_option, serialised
from trainmaster.documents import JobEvent
from trainmaster.rendering.timeline import line, timeline


@click.command("events")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@output_option
def command(job: str, output: str, *, follow: bool) -> None:
    """Show the history of a job, or follow it.

    With --follow and -o json each event is a line of its own.
    """
    screen = Screen.here()
    with connected() as client:
        if follow:
            _print(output, client.follow_events(job, notice=InterruptionTeller(screen)))
            return
        events = client.events(job)
    document = {"items": [event.document for event in events], "next": None}
    screen.result(output, document, lambda: timeline(events))


def _print(output: str, events: Iterable[JobEvent]) -> None:
    start = None
    for event in events:
        start = start or event.time
        if output == TABLE:
            click.echo(line(event, start))
        elif output == "json":
            click.echo(json_line(event.document))
        else:
            click.echo(f"---\n{serialised(event.document, output)}")
