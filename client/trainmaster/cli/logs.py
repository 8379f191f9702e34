"""`trainmaster logs`."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.following import JobFollower, LogFilter
from trainmaster.cli.log_printer import LogPrinter, LogStyle
from trainmaster.cli.screen import Screen
from trainmaster.client import Client
from trainmaster.documents import Job, LogChunk, LogPage, LogSource
from trainmaster.errors import ExitCode, InputError


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--role", help="Replicas of this role only.")
@click.option("--index", type=click.IntRange(0), help="Replicas with this index only.")
@click.option("--attempt", type=click.IntRange(1), help="This attempt; default: the last one.")
@click.option("--tail", type=click.IntRange(0), help="The last so many lines of each replica only.")
@click.option("--grep", help="Lines that match this regular expression only.")
@click.option("--raw", is_flag=True, help="One replica's bytes exactly as it wrote them.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="json: a chunk a line.")
def command(
    job: str,
    role: str | None,
    index: int | None,
    attempt: int | None,
    tail: int | None,
    grep: str | None,
    output: str,
    *,
    follow: bool,
    raw: bool,
) -> int:
    """Print or follow what the replicas of a job write.

    Progress bars show their last state, and escape sequences that would steer the terminal are taken out; --raw leaves
    everything as it is. Following shows on standard error what happens to the job, and goes on over a restart of the
    platform.
    """
    if raw and (grep is not None or output == "json"):
        raise click.UsageError("--raw goes with neither --grep nor -o json")
    screen = Screen.here()
    style = LogStyle(screen.coloured, grep=_pattern(grep), raw=raw, as_json=output == "json")
    with connected() as client:
        chosen = LogFilter(attempt, role, index, tail)
        if follow:
            found = client.job(job)
            if style.raw and found.replica_count > 1 and (role is None or index is None):
                raise InputError(f"--raw follows one replica, and {job} has several; choose by --role and --index")
            return _follow(client, found.id, screen, LogPrinter(style, time.monotonic), chosen)
        _print(client, job, chosen, style)
    return ExitCode.OK


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(grep) if grep is not None else None
    except re.error as error:
        raise click.UsageError(f"--grep {grep!r} is no regular expression: {error}") from error


def _follow(client: Client, job: str, screen: Screen, printer: LogPrinter, chosen: LogFilter) -> int:
    try:
        JobFollower(client, job, screen, printer, logs=chosen).run()
    except KeyboardInterrupt:
        printer.finish()
        screen.say(f"{job} goes on without you")
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _print(client: Client, job: str, chosen: LogFilter, style: LogStyle) -> None:
    sources = _chosen(client.log_sources(job), chosen)
    if not any(source.size_bytes for source in sources):
        Screen.here().say(_silence(client.job(job)))
    elif style.raw:
        _print_raw(client, job, sources, chosen.tail)
    else:
        style = replace(style, prefixed=len(sources) > 1)
        for source in sources:
            _print_lines(client, job, source, chosen.tail, style)


def _silence(job: Job) -> str:
    """Why there is nothing to print."""
    if not any(attempt.placed_at for attempt in job.attempts):
        return (
            f"{job.name} never ran" if job.ended else f"{job.name} does not run yet: `trainmaster explain {job.name}`"
        )
    return f"{job.name} wrote nothing" if job.ended else f"{job.name} has written nothing so far"


def _chosen(sources: tuple[LogSource, ...], chosen: LogFilter) -> list[LogSource]:
    """The sources that were asked for; of the last attempt where none was named."""
    attempt = chosen.attempt or max((source.attempt for source in sources), default=None)
    found = [
        source
        for source in sources
        if source.attempt == attempt and chosen.role in (None, source.role) and chosen.index in (None, source.index)
    ]
    if sources and not found:
        there = ", ".join(dict.fromkeys(f"{source.name} of attempt {source.attempt}" for source in sources[:12]))
        raise InputError(f"no replica is like that; there are logs of {there}")
    return sorted(found, key=lambda source: (source.role, source.index))


def _print_raw(client: Client, job: str, sources: list[LogSource], tail: int | None) -> None:
    if len(sources) > 1:
        names = ", ".join(source.name for source in sources[:12])
        raise InputError(f"--raw prints one replica, and there are {len(sources)} ({names}); choose by --role, --index")
    for page in client.logs(job, sources[0], tail=tail, raw=True):
        sys.stdout.buffer.write(page.content)
    sys.stdout.buffer.flush()


def _print_lines(client: Client, job: str, source: LogSource, tail: int | None, style: LogStyle) -> None:
    """A replica's log as lines; --tail counts matching lines where there is --grep, so all of it is read then.

    What the replica wrote is asked for raw, because colours and the last state of a progress bar are wanted here.
    """
    kept: deque[str] = deque(maxlen=tail)
    sifted = style.grep is not None and tail is not None
    printer = LogPrinter(style, time.monotonic, kept.extend if sifted else sys.stdout.writelines)
    for chunk in _chunks(client.logs(job, source, tail=None if sifted else tail, raw=True), source):
        printer.feed(chunk)
    printer.finish()
    sys.stdout.writelines(kept)


def _chunks(pages: Iterable[LogPage], source: LogSource) -> Iterator[LogChunk]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for page in pages:
        yield LogChunk(source.attempt, source.role, source.index, page.offset, decoder.decode(page.content))
