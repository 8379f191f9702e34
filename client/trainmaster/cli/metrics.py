"""`trainmaster metrics`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import FORMATS, TABLE, Screen, json_line, serialised
from trainmaster.client import Client
from trainmaster.documents import Curve
from trainmaster.rendering.curves import HEIGHT, WIDTH, curves

_CSV = "csv"


@click.command("metrics")
@click.argument("job")
@click.option("--tag", "tags", multiple=True, help="Only this curve, such as Loss/train; may be repeated.")
@click.option("--attempt", help="The attempt, several such as 1,3, or all; default: the last one that has any.")
@click.option("-f", "--follow", is_flag=True, help="Draw again as points come, until the job has ended.")
@click.option("--points", type=click.IntRange(5, 50_000), help="At most so many points of each curve, extremes kept.")
@click.option("--width", type=click.IntRange(30, 400), default=WIDTH, show_default=True, help="Characters across.")
@click.option("--height", type=click.IntRange(6, 100), default=HEIGHT, show_default=True, help="Lines of each curve.")
@click.option(
    "-o",
    "--output",
    type=click.Choice((*FORMATS, _CSV)),
    default=TABLE,
    show_default=True,
    help="How to print; csv has every point, and --follow with json a line a change.",
)
def command(
    job: str,
    tags: tuple[str, ...],
    attempt: str | None,
    points: int | None,
    width: int,
    height: int,
    output: str,
    *,
    follow: bool,
) -> None:
    """Draw the curves that a job wrote for TensorBoard, several attempts over each other."""
    if follow and output not in (TABLE, "json"):
        raise click.UsageError("--follow goes with the drawing and with -o json")
    with connected() as client:
        if output == _CSV:
            _print_csv(client, job, tags, attempt)
        elif follow:
            for found in client.follow_scalars(job, tag=tags, attempt=attempt, points=points):
                _print_again(found, width, height, output)
        else:
            _print(job, client.scalars(job, attempt=attempt, points=points), tags, width, height, output)


def _print(job: str, found: tuple[Curve, ...], tags: tuple[str, ...], width: int, height: int, output: str) -> None:
    chosen = [curve for curve in found if not tags or curve.tag in tags]
    if missing := sorted(set(tags) - {curve.tag for curve in found}):
        known = ", ".join(dict.fromkeys(curve.tag for curve in found)) or "none"
        raise click.UsageError(f"{job} wrote no scalars under {', '.join(missing)}; its tags are: {known}")
    if output != TABLE:
        click.echo(serialised(_document(chosen), output))
    elif not chosen:
        Screen.here().say(f"{job} has written no scalars for TensorBoard so far")
    else:
        _draw(chosen, width, height)


def _print_again(found: tuple[Curve, ...], width: int, height: int, output: str) -> None:
    if output != TABLE:
        click.echo(json_line(_document(found)))
        return
    if sys.stdout.isatty():
        click.clear()
    _draw(found, width, height)


def _print_csv(client: Client, job: str, tags: tuple[str, ...], attempt: str | None) -> None:
    for piece in client.scalars_csv(job, tag=tags, attempt=attempt):
        click.echo(piece, nl=False)


def _draw(found: Iterable[Curve], width: int, height: int) -> None:
    for drawn in curves(found, width, height):
        click.echo(drawn + "\n")


def _document(found: Iterable[Curve]) -> dict[str, object]:
    return {"tags": [curve.document for curve in found]}
