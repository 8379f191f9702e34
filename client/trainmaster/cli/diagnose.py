"""`trainmaster diagnose`."""

from __future__ import annotations

from pathlib import Path

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.client import Client
from trainmaster.decoding import Fields
from trainmaster.diagnoses import How, nodes_of
from trainmaster.errors import ExitCode, InputError
from trainmaster.rendering.diagnosis import diagnosis_page, is_bad
from trainmaster.rendering.heatmap import HeatMap, as_svg


@click.command("diagnose")
@click.argument("names", nargs=-1, metavar="POOL|NODE…")
@click.option("--follow", metavar="ID", default="", help="Wait for a diagnosis that was begun before, and show it.")
@click.option("--inject", multiple=True, metavar="FAULT", help="Pretend a fault, such as slow-link:A-B:0.3.")
@click.option("--instance-type", metavar="NAME", default="", help="Stages and floors of this instance type.")
@click.option("--deep", type=click.IntRange(1, 4), default=None, help="DCGM's diagnostics at this level, too.")
@click.option("--keep-passes", is_flag=True, help="Do not test again what passed less than a day ago.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the heat-map to this file.")
@output_option
def command(
    names: tuple[str, ...],
    inject: tuple[str, ...],
    follow: str,
    instance_type: str,
    deep: int | None,
    svg: Path | None,
    output: str,
    *,
    keep_passes: bool,
) -> int:
    """Test nodes now: devices, memory, and the ways between them.

    For admins. Nodes that jobs hold are looked at and not put under load. It goes on where this command, or the
    platform, is ended meanwhile. The exit code is 1 where a node is not green.
    """
    screen = Screen.here()
    if bool(names) == bool(follow):
        raise InputError("name nodes and pools to test them, or a diagnosis with --follow; one of both")
    with connected() as client:
        how = How(inject, instance_type, deep or 0, thorough=not keep_passes)
        diagnosis = follow or _begun(client, screen, names, how)
        document = client.diagnoses.wait(diagnosis)
    report = Fields.of(document)
    if svg is not None:
        svg.write_text(as_svg(HeatMap.of(report)))
    screen.result(output, document, lambda: diagnosis_page(report))
    return ExitCode.NODE_NOT_GREEN if is_bad(report) else ExitCode.OK


def _begun(client: Client, screen: Screen, names: tuple[str, ...], how: How) -> str:
    """Begin one, and tell how long it will take and what it is called."""
    nodes = nodes_of(names, list(client.list("nodes")))
    begun = Fields.of(client.diagnoses.begin(nodes, how))
    budget, most = begun.number("budgetS"), begun.number("mostS")
    how_long = f"about {budget:.0f} s, at most {most:.0f} s where there are suspects"
    screen.say(f"{len(nodes)} nodes: {how_long} (diagnosis {begun.text('id')})")
    return begun.text("id")
