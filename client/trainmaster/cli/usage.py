"""`trainmaster usage` and `trainmaster usage verify`."""

from __future__ import annotations

import re
from typing import Final

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.screen import TABLE, Screen, output_option
from trainmaster.errors import ExitCode
from trainmaster.rendering.bill import bill_of_job, bill_of_jobs, verification

VERIFY: Final = "verify"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)


@click.command("usage")
@click.argument("words", nargs=-1, metavar="[verify] [JOB]")
@click.option("--project", help="Jobs of this project only.")
@click.option("--from", "since", metavar="TIME", help="Only from this time or date on (UTC).")
@click.option("--to", "until", metavar="TIME", help="Only before this time or date (UTC).")
@output_option
def command(words: tuple[str, ...], project: str | None, since: str | None, until: str | None, output: str) -> int:
    """Show what jobs used and cost, or verify it against their events.

    Without JOB: everything that you may see, a line for each job. `verify` recomputes usage from the events of the
    job, or of all jobs, and ends with exit code 9 where the bill is another. (A job that is called "verify" is named
    by its id.)
    """
    verifying = words[:1] == (VERIFY,)
    jobs = words[1:] if verifying else words
    if len(jobs) > 1:
        raise click.UsageError("give one job at most")
    job = jobs[0] if jobs else None
    if verifying:
        if project or since or until:
            raise click.UsageError("usage verify takes no --project, --from or --to")
        return _verify(job, output)
    with connected() as client:
        bill = client.bill(job, project=project, since=_time(since), until=_time(until))
    screen = Screen.here()
    screen.result(output, bill.document, lambda: bill_of_job(bill) if job else bill_of_jobs(bill))
    return ExitCode.OK


def _verify(job: str | None, output: str) -> int:
    with connected() as client:
        verified = list(client.verify_usage(job))
    screen = Screen.here()
    differing = [one for one in verified if one.differs]
    if output != TABLE or any(found.verdict != "same" for one in verified for found in one.comparisons):
        screen.result(output, {"items": [one.document for one in verified]}, lambda: verification(verified))
    told = f"{len(differing)} of {len(verified)} jobs differ" if differing else f"{len(verified)} jobs verified"
    screen.say(told, style="bold red" if differing else "green")
    return ExitCode.USAGE_DIFFERS if differing else ExitCode.OK


def _time(text: str | None) -> str | None:
    """A date is its beginning."""
    return f"{text}T00:00:00Z" if text and _DATE.match(text) else text
