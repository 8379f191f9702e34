"""`trainmaster rerun`."""

from __future__ import annotations

import sys
import time

import click

from trainmaster.changes import parse_change
from trainmaster.cli.connection import connected
from trainmaster.cli.following import follow_to_the_end
from trainmaster.cli.log_printer import LogPrinter, LogStyle
from trainmaster.cli.screen import TABLE, Screen, output_option
from trainmaster.errors import ExitCode
from trainmaster.rendering.style import text


@click.command("rerun")
@click.argument("job")
@click.option("--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change a value first; may be repeated.")
@click.option("--name", help="Name of the new job; default: one that the platform makes of the old.")
@click.option("--follow", is_flag=True, help="Follow the new job until it has ended; the exit code says how.")
@output_option
def command(job: str, changes: tuple[str, ...], name: str | None, output: str, *, follow: bool) -> int:
    """Submit a job once more, with changes.

    The new job has the spec of the old one, its project and labels. A PATH is the keys down to a value, with dots
    between them and positions in lists as numbers from 0; a VALUE is YAML, and null takes away what is there:

    \b
      trainmaster rerun mnist --set spec.roles.0.replicas=4 --set 'spec.env.LR="0.1"' --set spec.retry=null
    """  # noqa: D301  # click reads the backspace character
    parsed = [parse_change(change) for change in changes]
    screen = Screen.here()
    with connected() as client:
        applied = client.rerun(job, parsed, name=name)
        told = f"job {applied.name} submitted as {applied.id}"
        if not follow:
            screen.result(output, applied.document, lambda: text(told))
            return ExitCode.OK
        screen.say(told)
        stream = sys.stdout if output == TABLE else sys.stderr
        code = follow_to_the_end(
            client, applied.id, screen, LogPrinter(LogStyle(screen.coloured), time.monotonic, stream.writelines)
        )
        if output != TABLE:
            screen.result(output, client.get("jobs", applied.id), lambda: "")
        return code
