"""`trainmaster explain`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.rendering.explanation import explanation


@click.command("explain")
@click.argument("job")
@output_option
def command(job: str, output: str) -> None:
    """Say what a job waits for, in numbers; of one that has ended what became of it."""
    with connected() as client:
        answer = client.explain(job)
    Screen.here().result(output, answer.document, lambda: explanation(answer))
