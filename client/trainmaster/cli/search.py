"""`trainmaster search`."""

from __future__ import annotations

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import Screen, json_line
from trainmaster.cli.times import PointInTime
from trainmaster.client import Client
from trainmaster.errors import ExitCode
from trainmaster.rendering.log_lines import harmless
from trainmaster.stored_logs import LogSearch, SearchEnd


@click.command("search")
@click.argument("pattern")
@click.option("--job", help="In this job only; default: in all of your own.")
@click.option("--project", help="In all jobs of a project that you may see.")
@click.option("-E", "--regex", is_flag=True, help="PATTERN is a regular expression.")
@click.option("-i", "--ignore-case", is_flag=True, help="Letters match in either case.")
@click.option("--since", type=PointInTime(), help="What was written since then: a time, or how long ago (10m, 3d).")
@click.option("--until", type=PointInTime(), help="What was written up to then.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Lines at most.")
@click.option("--cursor", help="Go on where a search stopped at its limit.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="json: a line a match.")
def command(
    pattern: str,
    job: str | None,
    project: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
    output: str,
    *,
    regex: bool,
    ignore_case: bool,
) -> int:
    """Find lines in the logs of your jobs, newest jobs first.

    Lines are printed as they are found, each with its job, replica and offset: `trainmaster logs JOB --offset N` reads
    on there. The exit code is 1 where nothing was found.
    """
    if job is not None and project is not None:
        raise click.UsageError("give --job or --project, not both")
    wanted = LogSearch(pattern, regex, ignore_case, job=job, project=project, since=since, until=until, limit=limit)
    with connected() as client:
        found = print_matches(client, wanted, cursor, as_json=output == "json", with_job=job is None)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


def print_matches(
    client: Client, wanted: LogSearch, cursor: str | None = None, *, as_json: bool, with_job: bool
) -> int:
    """Print what is found as it comes; gives how much that was."""
    found = 0
    for match in client.stored_logs.search(wanted, cursor):
        if isinstance(match, SearchEnd):
            if match.cursor:
                Screen.here().say(f"stopped after {found} lines; go on with --cursor {match.cursor}")
            break
        found += 1
        if as_json:
            click.echo(json_line(match.document))
            continue
        name = match.name if match.attempt <= 1 else f"{match.name} #{match.attempt}"
        place = f"{match.job} {name}" if with_job else name
        click.echo(f"{place} {match.offset}: {harmless(match.text, coloured=False)}")
    return found
