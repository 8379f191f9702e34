"""`trainmaster diagnose`."""

from __future__ import annotations

from pathlib import Path

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, output_option
from trainmaster.client import Client
from trainmaster.decoding import Document, Fields
from trainmaster.diagnoses import How, how_long, nodes_of
from trainmaster.errors import ExitCode, ForbiddenError, InputError, NotFoundError
from trainmaster.rendering.diagnosis import diagnoses_list, diagnosis_page, is_bad, is_incomplete
from trainmaster.rendering.heatmap import HeatMap, as_svg
from trainmaster.rendering.style import text


@click.command("diagnose")
@click.argument("names", nargs=-1, metavar="POOL|NODE…")
@click.option("--follow", metavar="ID", default="", help="Wait for a diagnosis that was begun before, and show it.")
@click.option("--report", metavar="JOB|ID", default="", help="Show the report of a job's last diagnosis, or by its id.")
@click.option("--cancel", metavar="ID", default="", help="End a diagnosis that waits or runs.")
@click.option("--list", "listed", is_flag=True, help="List the latest reports.")
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
    report: str,
    cancel: str,
    instance_type: str,
    deep: int | None,
    svg: Path | None,
    output: str,
    *,
    keep_passes: bool,
    listed: bool,
) -> int:
    """Test nodes now, their devices and the ways between them; or show reports on record.

    For admins; the report of a job's diagnosis is also for those who may see the job. Nodes that jobs hold are looked
    at and not put under load. It goes on where this command, or the platform, is ended meanwhile. The exit code is 1
    where a node is not green, and 10 where all are, and some were not tested: a job is on them, or the tests were
    broken off.
    """
    screen = Screen.here()
    if sum(map(bool, (names, follow, report, cancel, listed))) != 1:
        raise InputError("name nodes and pools to test them; or give one of --follow, --report, --cancel and --list")
    how = How(inject, instance_type, deep or 0, thorough=not keep_passes)
    if how != How() and not names:
        raise InputError("--inject, --instance-type, --deep and --keep-passes are of a new diagnosis; name its nodes")
    if svg is not None:
        _can_be_drawn(svg, is_report=not listed and not cancel)
    with connected() as client:
        if listed:
            return _list(client, screen, output)
        if cancel:
            return _cancel(client, screen, cancel, output)
        if report:
            document = _on_record(client, report)
        else:
            document = client.diagnoses.wait(follow or _begun(client, screen, names, how))
    shown = Fields.of(document)
    screen.result(output, document, lambda: diagnosis_page(shown))
    if svg is not None:
        _draw(shown, svg)
    if is_bad(shown):
        return ExitCode.NODE_NOT_GREEN
    return ExitCode.NODE_NOT_TESTED if is_incomplete(shown) else ExitCode.OK


def _list(client: Client, screen: Screen, output: str) -> int:
    document = client.diagnoses.latest()
    screen.result(output, document, lambda: diagnoses_list(Fields.of(document).each("items")))
    return ExitCode.OK


def _cancel(client: Client, screen: Screen, name: str, output: str) -> int:
    document = client.diagnoses.cancel(name)
    screen.result(output, document, lambda: text(f"diagnosis {name}: {Fields.of(document).text('message')}"))
    return ExitCode.OK


def _on_record(client: Client, name: str) -> Document:
    """The report with this id, or of the last diagnosis of the job with this name or id."""
    try:
        return client.diagnoses.get(name)
    except (NotFoundError, ForbiddenError):
        job = client.job(name)
    diagnosed = [attempt.number for attempt in job.attempts if attempt.diagnosis]
    found = client.diagnoses.of_attempt(job, diagnosed[-1]) if diagnosed else None
    if found is None:
        raise InputError(f"of {job.name} there is no report of a diagnosis")
    return found


def _can_be_drawn(svg: Path, *, is_report: bool) -> None:
    """Refuse, before any test, a heat-map that there is no place for."""
    if not is_report:
        raise InputError("--svg draws one report; give --report with it, and neither --list nor --cancel")
    if not svg.parent.is_dir():
        raise InputError(f"{svg} cannot be written: there is no directory {svg.parent}")


def _draw(report: Fields, svg: Path) -> None:
    heat = HeatMap.of(report)
    if not heat.values:
        raise InputError(f"no pair of nodes was tested, so there is no heat-map for {svg}")
    try:
        svg.write_text(as_svg(heat), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{svg} cannot be written: {error.strerror}") from error


def _begun(client: Client, screen: Screen, names: tuple[str, ...], how: How) -> str:
    """Begin one, and tell how long it will take and what it is called."""
    nodes = nodes_of(names, list(client.list("nodes")))
    begun = client.diagnoses.begin(nodes, how)
    name = Fields.of(begun).text("id")
    screen.say(f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}: {how_long(begun)} (diagnosis {name})")
    return name
