"""`trainmaster metrics`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.rendering.curves import HEIGHT, WIDTH, curves


@click.command("metrics")
@click.argument("job")
@click.option("--tag", "tags", multiple=True, help="Only this curve, such as Loss/train; may be repeated.")
@click.option("--attempt", type=click.IntRange(1), help="The attempt; default: the last one.")
@click.option("--width", type=click.IntRange(30, 400), default=WIDTH, show_default=True, help="Characters across.")
@click.option("--height", type=click.IntRange(6, 100), default=HEIGHT, show_default=True, help="Lines of each curve.")
@output_option
def command(job: str, tags: tuple[str, ...], attempt: int | None, width: int, height: int, output: str) -> None:
    """Draw the curves that a job wrote for TensorBoard."""
    with connected() as client:
        found = client.scalars(job, attempt=attempt)
    chosen = [curve for curve in found if not tags or curve.tag in tags]
    if missing := sorted(set(tags) - {curve.tag for curve in found}):
        known = ", ".join(curve.tag for curve in found) or "none"
        raise click.UsageError(f"{job} wrote no scalars under {', '.join(missing)}; its tags are: {known}")
    if output != TABLE:
        click.echo(serialised({"tags": [curve.document for curve in chosen]}, output))
    elif not chosen:
        Screen.here().say(f"{job} has written no scalars for TensorBoard so far")
    for drawn in curves(chosen, width, height) if output == TABLE else ():
        click.echo(drawn + "\n")
