"""A YAML file's text, and places in it: what error messages point at."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

from trainmaster.errors import ExitCode, TrainmasterError

MAX_SOURCE_BYTES: Final = 2 * 1024 * 1024
_UNPRINTABLE: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one line; line and columns count from 1, `end_column` is the first one after it."""

    line: int
    column: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file (or of standard input), with the name that messages call it by."""

    name: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, split where YAML splits them."""
        return self.text.splitlines()

    def line(self, number: int) -> str:
        """A line by its number; empty after the last."""
        lines = self.lines
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file."""

    span: Span
    message: str


class ManifestError(TrainmasterError):
    """A file that is not YAML as Trainmaster reads it; carries every fault that was found."""

    exit_code = ExitCode.INVALID

    def __init__(self, source: Source, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{source.name}:{f.span.line}:{f.span.column}: {f.message}" for f in faults))
        self.source = source
        self.faults = faults


def decoded(name: str, content: bytes) -> Source:
    """The text of a file; raises ManifestError where it is too large, not UTF-8, or holds control characters."""
    if len(content) > MAX_SOURCE_BYTES:
        size, limit = len(content) / 1024**2, MAX_SOURCE_BYTES // 1024**2
        raise _unreadable(name, "", 0, f"the file has {size:.1f} MiB; at most {limit} MiB are read")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", errors="replace")
        message = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise _unreadable(name, content.decode("utf-8", errors="replace"), len(before), message) from error
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        character = f"U+{ord(unprintable[0]):04X}"
        message = f"character {character} may not stand in YAML; write it as an escape in double quotes"
        raise _unreadable(name, text, unprintable.start(), message)
    return Source(name, text)


def _unreadable(name: str, text: str, index: int, message: str) -> ManifestError:
    lines = f"{text[:index]}|".splitlines()  # the bar stands for the culprit, so that its line is never left out
    line, column = len(lines), len(lines[-1])
    return ManifestError(Source(name, text), (Fault(Span(line, column, column + 1), message),))
