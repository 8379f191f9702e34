"""`trainmaster delete`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen
from trainmaster.kinds import TRAINING_JOB, kind_of_argument


@click.command("delete")
@click.argument("kind_and_name", metavar="[KIND] NAME", nargs=-1, required=True)
def command(kind_and_name: tuple[str, ...]) -> None:
    """Delete an ended job, or something else by kind and name.

    `trainmaster delete mnist` deletes a job, `trainmaster delete pool team-a` a pool.
    """
    if len(kind_and_name) > 2:
        raise click.UsageError("give a job, or a kind and a name")
    kind = kind_of_argument(kind_and_name[0]) if len(kind_and_name) > 1 else TRAINING_JOB
    if kind.read_only:
        raise click.UsageError(f"{kind.plural} are reported by the platform and cannot be deleted")
    with connected() as client:
        client.delete(kind.plural, kind_and_name[-1])
    Screen.here().say(f"{kind.singular} {kind_and_name[-1]} deleted")
