"""`trainmaster apply`: reads manifests, has the platform take each, and shows refusals at their place in the file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import click

from trainmaster.cli.connection import connected
from trainmaster.cli.following import follow_to_the_end
from trainmaster.cli.log_printer import LogPrinter, LogStyle
from trainmaster.cli.remarks import warn_of_unknown_nodes
from trainmaster.cli.screen import TABLE, Screen, output_option, serialised
from trainmaster.client import Client, Progress, name_of
from trainmaster.code_upload import upload_folder
from trainmaster.documents import Applied
from trainmaster.errors import ExitCode, InputError, InvalidInputError, Violation
from trainmaster.kinds import TRAINING_JOB, kind_of_document
from trainmaster.manifests.reader import Manifest, RefusedManifestError, read_file


@click.command("apply")
@click.option(
    "-f", "--file", "paths", multiple=True, required=True, metavar="FILE", help="A YAML file; - is standard input."
)
@click.option("--follow", is_flag=True, help="Follow the job until it has ended; the exit code says how.")
@output_option
def command(paths: tuple[str, ...], output: str, *, follow: bool) -> int:
    """Submit the jobs in a YAML file, and put everything else in it in place.

    A file may hold several documents; they are applied in their order, and nothing is sent while one of them is wrong
    by itself. Folders to upload (`code: {upload: ./src}`) are relative to the file. With --follow the exit code is 0
    where the job succeeded, 1 where it failed, 7 where it was stopped; -o json then prints the job as it ended.
    """
    manifests = [manifest for path in paths for manifest in read_file(path, sys.stdin.buffer)]
    for manifest in manifests:
        _check(manifest)
    if follow:
        _check_followable(manifests)
    screen = Screen.here()
    with connected() as client:
        applied = _apply_all(client, manifests, screen)
        if output == TABLE or not follow:
            _report(applied, output)
        return _follow(client, applied, screen, output) if follow else ExitCode.OK


def _follow(client: Client, applied: Sequence[Applied], screen: Screen, output: str) -> int:
    """Follow the job; where a document is wanted it is the job's last one, and the logs leave standard output to it."""
    job = next(one for one in applied if one.kind == TRAINING_JOB.singular)
    stream = sys.stdout if output == TABLE else sys.stderr
    printer = LogPrinter(LogStyle(screen.coloured), time.monotonic, stream.writelines)
    code = follow_to_the_end(client, job.id, screen, printer)
    if output != TABLE:
        ended = replace(job, document=client.get(job.kind, job.id))
        _report([ended if one is job else one for one in applied], output)
    return code


def _check(manifest: Manifest) -> None:
    """What can be known to be wrong without asking the platform."""
    violations = []
    try:
        kind_of_document(manifest.document.get("kind"))
    except InputError as error:
        violations.append(Violation("/kind", "unknown-kind", error.message))
    try:
        name = name_of(manifest.document)
    except InputError as error:
        violations.append(Violation("/metadata/name", "required", error.message))
    else:
        if "/" in name and "generateName" not in manifest.document["metadata"]:
            # No route has it: the platform could only say that it knows nothing at that path.
            message = f"{name!r} has the character /, which no name may have; leave it out"
            violations.append(Violation("/metadata/name", "name-character", message))
    if violations:
        raise RefusedManifestError(manifest, tuple(violations))


def _check_followable(manifests: Sequence[Manifest]) -> None:
    jobs = [name_of(one.document) for one in manifests if one.document.get("kind") == TRAINING_JOB.name]
    if len(jobs) != 1:
        there = f"there are {len(jobs)} ({', '.join(jobs)})" if jobs else "there is none"
        raise InputError(f"--follow follows one job, and {there}; apply without it and use `trainmaster logs JOB -f`")


def _apply_all(client: Client, manifests: Sequence[Manifest], screen: Screen) -> list[Applied]:
    applied: list[Applied] = []
    for manifest in manifests:
        try:
            applied.append(_apply(client, manifest, screen))
            if applied[-1].kind == TRAINING_JOB.singular:
                warn_of_unknown_nodes(client, manifest, screen)
        except InvalidInputError as error:
            _tell_partial(screen, applied, manifests)
            if not error.problem.violations:
                raise
            raise RefusedManifestError(manifest, error.problem.violations) from error
        except Exception:
            _tell_partial(screen, applied, manifests)
            raise
    return applied


def _apply(client: Client, manifest: Manifest, screen: Screen) -> Applied:
    folder = upload_folder(manifest.document)
    if folder is None:
        return client.apply(manifest.document, base=manifest.base)
    with _progress(screen, f"uploading {folder}") as progress:
        return client.apply(manifest.document, base=manifest.base, progress=progress)


@contextmanager
def _progress(screen: Screen, label: str) -> Iterator[Progress | None]:
    """A progress bar, where a person is watching."""
    if not screen.err.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar  # noqa: PLC0415  # only for uploads on a terminal

    with Bar(console=screen.err, transient=True) as bar:
        task = bar.add_task(label)
        yield lambda sent_bytes, total_bytes: bar.update(task, completed=sent_bytes, total=total_bytes)


def _tell_partial(screen: Screen, applied: Sequence[Applied], manifests: Sequence[Manifest]) -> None:
    """After a failure in the middle: what is in place and what is not."""
    for one in applied:
        screen.say(_outcome(one))
    rest = len(manifests) - len(applied) - 1
    if rest > 0:
        screen.say(f"{rest} further documents were not applied")


def _report(applied: Sequence[Applied], output: str) -> None:
    if output == TABLE:
        for one in applied:
            click.echo(_outcome(one))
        return
    documents = [one.document for one in applied]
    click.echo(serialised(documents[0] if len(documents) == 1 else {"items": documents}, output))


def _outcome(one: Applied) -> str:
    if one.kind == TRAINING_JOB.singular:
        return f"job {one.name} submitted as {one.id}"
    return f"{one.kind} {one.name} {'created' if one.created else 'configured'}"
