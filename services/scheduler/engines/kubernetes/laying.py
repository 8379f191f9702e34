"""Fills a folder of a pod before its command starts: the program of the init containers, from the platform's own image.

    python -m services.scheduler.engines.kubernetes.laying archive FILE FOLDER
    python -m services.scheduler.engines.kubernetes.laying url URL DIGEST FOLDER
    python -m services.scheduler.engines.kubernetes.laying directory SOURCE FOLDER

What is unpacked was written by users and is trusted in nothing; see `services.scheduler.engines.unpack`. A URL is the
scheduler's, which may be away for a while; the ticket is in the environment. A failure is told as one sentence, on
standard error and in the container's termination message, where the engine finds it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final

from services.scheduler.engines.unpack import fill
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeArchive, CodeDirectory
from shared.trees import remove_tree

TICKET_VARIABLE: Final = "TM_CODE_TICKET"
TICKET_HEADER: Final = "Tm-Code-Ticket"
TERMINATION_MESSAGE: Final = Path("/dev/termination-log")
MESSAGE_MAX: Final = 4000
PATIENCE_S: Final = 300.0
PAUSE_S: Final = 3.0
_REQUEST_S: Final = 30.0
_BLOCK_BYTES: Final = 1 << 20
_IN_VAIN: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def main(arguments: list[str], message: Path = TERMINATION_MESSAGE) -> int:
    """Fill the folder; the exit code."""
    try:
        _lay(arguments)
    except StartRefusedError as error:
        return _told(error.message, message)
    except OSError as error:
        return _told(f"the code cannot be laid: {error.strerror or error}", message)
    return 0


def fetch(url: str, ticket: str, target: IO[bytes], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Write what is at the URL to a file; tries for some minutes. Raises StartRefusedError."""
    for left in reversed(range(round(PATIENCE_S / PAUSE_S))):
        target.seek(0)
        target.truncate()
        try:
            _request(url, ticket, target)
        except OSError as error:
            if not left or (isinstance(error, urllib.error.HTTPError) and error.code in _IN_VAIN):
                raise StartRefusedError(f"the code cannot be fetched from the scheduler: {error}") from error
            sleep(PAUSE_S)
        else:
            return


def _lay(arguments: list[str]) -> None:
    match arguments:
        case ["archive", file, folder]:
            fill(CodeArchive(Path(file)), _emptied(folder))
        case ["url", url, digest, folder]:
            with tempfile.NamedTemporaryFile() as archive:
                fetch(url, os.environ.get(TICKET_VARIABLE, ""), archive.file)
                _check(Path(archive.name), digest)
                fill(CodeArchive(Path(archive.name)), _emptied(folder))
        case ["directory", source, folder]:
            fill(CodeDirectory(Path(source)), _emptied(folder), name="the directory")
        case _:
            raise StartRefusedError(f"these are no arguments of this program: {arguments}")


def _emptied(folder: str) -> Path:
    """The folder without what an earlier run that was interrupted has left."""
    for entry in Path(folder).iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink()
    return Path(folder)


def _request(url: str, ticket: str, target: IO[bytes]) -> None:
    request = urllib.request.Request(url, headers={TICKET_HEADER: ticket})  # noqa: S310  # the platform's own address
    with urllib.request.urlopen(request, timeout=_REQUEST_S) as answer:  # noqa: S310
        while block := answer.read(_BLOCK_BYTES):
            target.write(block)
    target.flush()


def _check(archive: Path, digest: str) -> None:
    with archive.open("rb") as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if found != digest:
        raise StartRefusedError("the code that came from the scheduler is not the code that this gang was started with")


def _told(sentence: str, message: Path) -> int:
    print(f"trainmaster: {sentence}", file=sys.stderr)  # noqa: T201  # the container's log
    message.write_text(sentence[:MESSAGE_MAX])
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
