"""Prints log chunks of many replicas as whole lines, each with the name of its replica."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trainmaster.cli.screen import json_line
from trainmaster.documents import LogChunk
from trainmaster.rendering.log_lines import LineAssembler, Prefixes, harmless

UNFINISHED_SHOWN_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class LogStyle:
    """How log text is printed."""

    coloured: bool
    prefixed: bool = True
    grep: re.Pattern[str] | None = None
    raw: bool = False
    as_json: bool = False


class LogPrinter:
    """Feed it chunks; call `tick` now and then, so that a prompt without a line end shows after a moment."""

    def __init__(
        self,
        style: LogStyle,
        clock: Callable[[], float],
        write: Callable[[Iterable[str]], object] | None = None,
    ) -> None:
        self._style = style
        self._clock = clock
        self._write = write or sys.stdout.writelines
        self._prefixes = Prefixes(coloured=style.coloured)
        self._assemblers: dict[str, LineAssembler] = {}
        self._printed_at_s: dict[str, float] = {}

    def feed(self, chunk: LogChunk) -> None:
        """Print what the chunk completes."""
        if self._style.as_json:
            self._write([json_line(chunk.document) + "\n"])
        elif self._style.raw:
            self._write([chunk.text])
        else:
            replica = _replica(chunk)
            assembler = self._assemblers.setdefault(replica, LineAssembler())
            if not assembler.pending:
                self._printed_at_s[replica] = self._clock()
            self._print(replica, assembler.feed(chunk.text))
        sys.stdout.flush()  # whoever reads a pipe wants to see it now

    def tick(self) -> None:
        """Print unfinished lines that have been waiting."""
        for replica, assembler in self._assemblers.items():
            if assembler.pending and self._clock() - self._printed_at_s[replica] >= UNFINISHED_SHOWN_AFTER_S:
                self._print(replica, assembler.flush())
        sys.stdout.flush()

    def finish(self) -> None:
        """Print what is left."""
        for replica, assembler in self._assemblers.items():
            self._print(replica, assembler.flush())
        sys.stdout.flush()

    def _print(self, replica: str, lines: Iterable[str]) -> None:
        prefix = self._prefixes.of(replica) if self._style.prefixed else ""
        grep = self._style.grep
        shown = [harmless(line, coloured=self._style.coloured) for line in lines if not grep or grep.search(line)]
        if shown:
            self._write(f"{prefix}{line}\n" for line in shown)
            self._printed_at_s[replica] = self._clock()


def _replica(chunk: LogChunk) -> str:
    """`worker-0`, and which attempt from the second on."""
    name = f"{chunk.role}-{chunk.index}"
    return name if chunk.attempt <= 1 else f"{name} #{chunk.attempt}"
