"""`trainmaster logs`."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.following import JobFollower, LogFilter
from trainmaster.cli.log_printer import LogPrinter, LogStyle
from trainmaster.cli.screen import Screen, json_line
from trainmaster.cli.search import print_matches
from trainmaster.cli.times import PointInTime
from trainmaster.client import Client
from trainmaster.documents import Job, LogBegin, LogChunk, LogPage, LogSource
from trainmaster.errors import ExitCode, InputError
from trainmaster.rendering.log_lines import harmless
from trainmaster.stored_logs import LogSearch


@dataclass(frozen=True, slots=True)
class _Ways:
    """How logs are shown, beside which."""

    follow: bool
    by_time: bool
    search: str | None
    download: Path | None
    raw: bool
    regex: bool
    output: str


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--role", help="Replicas of this role only.")
@click.option("--index", type=click.IntRange(0), help="Replicas with this index only.")
@click.option("--attempt", type=click.IntRange(1), help="This attempt; default: the last one.")
@click.option("--tail", type=click.IntRange(0), help="The last so many lines of each replica only.")
@click.option("--since", type=PointInTime(), help="From then on: a time, or how long ago (10m, 3d).")
@click.option("--until", type=PointInTime(), help="Up to then.")
@click.option("--line", type=click.IntRange(1), help="From this line of each replica on.")
@click.option("--offset", type=click.IntRange(0), help="From this byte of each replica on.")
@click.option("--grep", help="Lines that match this regular expression only; looked at here.")
@click.option("--search", help="Lines that hold this text only; looked for by the platform, quickly.")
@click.option("-E", "--regex", is_flag=True, help="--search is a regular expression.")
@click.option("--by-time", is_flag=True, help="Lines of all replicas in the order in which they were seen.")
@click.option("--download", type=click.Path(dir_okay=False, path_type=Path), help="Write one replica's log to a file.")
@click.option("--raw", is_flag=True, help="One replica's bytes exactly as it wrote them.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="json: a chunk a line.")
def command(
    job: str,
    role: str | None,
    index: int | None,
    attempt: int | None,
    tail: int | None,
    since: str | None,
    until: str | None,
    line: int | None,
    offset: int | None,
    grep: str | None,
    **ways: Any,
) -> int:
    """Print or follow what the replicas of a job write, search in it, or save it.

    Progress bars show their last state, and escape sequences that would steer the terminal are taken out; --raw leaves
    everything as it is. Following shows on standard error what happens to the job, and goes on over a restart of the
    platform. A file of --download that ends in .zst is packed.
    """
    how = _Ways(**ways)
    begin = LogBegin(offset, line, since, tail, until)
    _check(how, begin, grep)
    screen = Screen.here()
    style = LogStyle(screen.coloured, grep=_pattern(grep), raw=how.raw, as_json=how.output == "json")
    with connected() as client:
        chosen = LogFilter(attempt, role, index, tail)
        if how.follow:
            found = client.job(job)
            if style.raw and found.replica_count > 1 and (role is None or index is None):
                raise InputError(f"--raw follows one replica, and {job} has several; choose by --role and --index")
            return _follow(client, found.id, screen, LogPrinter(style, time.monotonic), chosen)
        if how.search is not None:
            return _search(client, job, chosen, begin, how)
        if how.by_time:
            _print_by_time(client, job, chosen, begin, as_json=style.as_json)
        elif how.download is not None:
            _download(client, job, chosen, how)
        else:
            _print(client, job, chosen, begin, style)
    return ExitCode.OK


def _check(how: _Ways, begin: LogBegin, grep: str | None) -> None:
    """Refuse what does not go together."""
    if how.raw and (grep is not None or how.output == "json"):
        raise click.UsageError("--raw goes with neither --grep nor -o json")
    named = {"--follow": how.follow, "--search": how.search, "--by-time": how.by_time, "--download": how.download}
    given = [name for name, value in named.items() if value not in (None, False)]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} do not go together")
    begins = [f"--{name}" for name in ("offset", "line", "since", "tail") if getattr(begin, name) is not None]
    if len(begins) > 1:
        raise click.UsageError(f"{' and '.join(begins)} each say where to begin; give one")
    taken = {
        "--follow": {"--tail"},
        "--search": {"--since"},
        "--by-time": {"--since"},
        "--download": set[str](),
    }
    for way in given:
        if refused := [name for name in begins if name not in taken[way]]:
            raise click.UsageError(f"{way} does not go with {refused[0]}")
    if how.regex and how.search is None:
        raise click.UsageError("--regex says what --search is; give --search, too")


def _search(client: Client, job: str, chosen: LogFilter, begin: LogBegin, how: _Ways) -> int:
    wanted = LogSearch(
        how.search or "",
        how.regex,
        job=job,
        attempt=chosen.attempt,
        role=chosen.role,
        index=chosen.index,
        since=begin.since,
        until=begin.until,
    )
    found = print_matches(client, wanted, as_json=how.output == "json", with_job=False)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


def _print_by_time(client: Client, job: str, chosen: LogFilter, begin: LogBegin, *, as_json: bool) -> None:
    lines = client.stored_logs.lines(
        job, attempt=chosen.attempt, role=chosen.role, index=chosen.index, since=begin.since, until=begin.until
    )
    for line in lines:
        click.echo(
            json_line(line.document) if as_json else f"{line.time} {line.name} {harmless(line.text, coloured=False)}"
        )


def _download(client: Client, job: str, chosen: LogFilter, how: _Ways) -> None:
    source = _only_one(_chosen(client.log_sources(job), chosen), "--download saves")
    path = how.download or Path()
    with path.open("wb") as file:
        size = client.stored_logs.download(job, source, file, raw=how.raw, zstd=path.suffix == ".zst")
    Screen.here().say(f"{path}: {size} bytes of {source.name}")


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


def _print(client: Client, job: str, chosen: LogFilter, begin: LogBegin, style: LogStyle) -> None:
    sources = _chosen(client.log_sources(job), chosen)
    if not any(source.size_bytes for source in sources):
        Screen.here().say(_silence(client.job(job)))
    elif style.raw:
        _print_raw(client, job, sources, begin)
    else:
        style = replace(style, prefixed=len(sources) > 1)
        for source in sources:
            _print_lines(client, job, source, begin, style)


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


def _only_one(sources: list[LogSource], what: str) -> LogSource:
    if len(sources) != 1:
        names = ", ".join(source.name for source in sources[:12]) or "none has written anything"
        raise InputError(f"{what} one replica, and there are {len(sources)} ({names}); choose by --role, --index")
    return sources[0]


def _print_raw(client: Client, job: str, sources: list[LogSource], begin: LogBegin) -> None:
    for page in client.logs(job, _only_one(sources, "--raw prints"), begin=begin, raw=True):
        sys.stdout.buffer.write(page.content)
    sys.stdout.buffer.flush()


def _print_lines(client: Client, job: str, source: LogSource, begin: LogBegin, style: LogStyle) -> None:
    """A replica's log as lines; --tail counts matching lines where there is --grep, so all of it is read then.

    What the replica wrote is asked for raw, because colours and the last state of a progress bar are wanted here.
    """
    kept: deque[str] = deque(maxlen=begin.tail)
    sifted = style.grep is not None and begin.tail is not None
    printer = LogPrinter(style, time.monotonic, kept.extend if sifted else sys.stdout.writelines)
    begin = replace(begin, tail=None) if sifted else begin
    for chunk in _chunks(client.logs(job, source, begin=begin, raw=True), source):
        printer.feed(chunk)
    printer.finish()
    sys.stdout.writelines(kept)


def _chunks(pages: Iterable[LogPage], source: LogSource) -> Iterator[LogChunk]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for page in pages:
        yield LogChunk(source.attempt, source.role, source.index, page.offset, decoder.decode(page.content))
