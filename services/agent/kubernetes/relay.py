"""From the runtime's log files of a container to `log` in the replica's directory: one file, as the process wrote it.

`relay.json` remembers, for the file being read, told by its head, up to which offset its entries are in the log, and
how long the log was then. It is written about once a second, always after the log itself is on disk, and always before
another file is begun. So when the agent is killed anywhere, everything that the log has beyond the remembered length
came of that one file, behind the remembered offset: those entries are decoded again, and as many bytes of them left out
as the log has already. What we say ourselves in the log is remembered in the same way, as a position without a head.

Where the file that was being read is gone when the agent comes back, a line in the log says that bytes may be missing.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from services.agent.kubernetes.container_log import ContainerLog, LogFile
from services.agent.kubernetes.cri import decode, decode_torn, whole_entries
from services.agent.memory import write_atomically

LOG_FILE: Final = "log"
RELAY_FILE: Final = "relay.json"
WINDOW_BYTES: Final = 256 * 1024
WINDOW_MAX_BYTES: Final = 64 * 1024 * 1024
QUIET_S: Final = 1.0
SAVE_S: Final = 1.0
MISSED: Final = (
    b"\n[trainmaster] the node removed log files before they were read; bytes before this line may be missing\n"
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far the log is complete: its first `log_bytes` came before `offset` in the file with this head.

    Without a head, what comes next in the log is something of our own.
    """

    head: bytes = b""
    offset: int = 0
    log_bytes: int = 0


class Relay:
    """Copies one container's output into a log that begins with the preface; raises OSError, and is of no use then."""

    def __init__(self, source: Path, target: Path, preface: bytes = b"") -> None:
        self._file = target / RELAY_FILE
        self._saved = self._at = _load(self._file)
        self._fd = os.open(target / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._again = max(0, os.fstat(self._fd).st_size - self._at.log_bytes)
        """Bytes that will be made once more, and are in the log already."""
        self._files = ContainerLog(source, self._at.head)
        self._preface = preface
        self._window = WINDOW_BYTES
        self._saved_at = self.moved_at = float("-inf")

    def look(self) -> None:
        """Find out which files there are."""
        self._files.look()

    @property
    def has_begun(self) -> bool:
        """Whether anything of the container was ever there."""
        return bool(self._at.head or self._at.log_bytes or self._files.files)

    def step(self, now: float) -> bool:
        """Copy the next piece; false where there is nothing to do now."""
        if not self._files.files:
            return False
        file = self._files.files[0]
        if not file.head:
            return self._pass_over(file, now)
        if file.head != self._at.head:
            self._begin(file)
        data = file.read(self._at.offset, self._window)
        size = whole_entries(data)
        if size:
            self._take(size, decode(data[:size]), now)
            self._window = WINDOW_BYTES
            return True
        return self._at_end(file, data, now)

    def save(self, now: float) -> None:
        """Remember the position, where that is due."""
        if now - self._saved_at >= SAVE_S:
            self._saved_at = now
            self._remember(self._at)

    def finish(self) -> None:
        """The container has ended and nothing more came: add what is left, and see to it that all is on disk."""
        if not self._files.files and (self._files.lost or self._is_interrupted):
            self._note_missing()
        for number, file in enumerate(self._files.files):
            offset = self._at.offset if number == 0 and file.head == self._at.head else 0
            self._append(decode_torn(file.read(offset, self._window)))
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Let go of all files."""
        self._files.close()
        os.close(self._fd)

    @property
    def _is_interrupted(self) -> bool:
        """Whether an earlier life ended while it said that something is missing."""
        return not self._at.head and self._at.log_bytes > 0

    def _begin(self, file: LogFile) -> None:
        """Make this the file that is being read."""
        if self._files.lost or self._files.missed or self._is_interrupted:
            self._note_missing()
        elif not self._at.head:
            self._append(self._preface)
        self._at = Position(file.head, 0, self._at.log_bytes)
        self._remember(self._at)

    def _note_missing(self) -> None:
        if self._files.lost:  # whatever the log has beyond the position came of the file that is gone
            self._at = Position(log_bytes=self._at.log_bytes + self._again)
            self._again = 0
        self._files.lost, self._files.missed = b"", False
        self._at = Position(log_bytes=self._at.log_bytes)
        self._remember(self._at)
        self._append(MISSED)

    def _at_end(self, file: LogFile, data: bytes, now: float) -> bool:
        """There is no whole entry: a longer one, one that is being written, or none any more."""
        if len(data) == self._window < WINDOW_MAX_BYTES:
            self._window *= 2
            return True
        if len(data) == self._window:
            self._take(len(data), decode_torn(data), now)
            return True
        if not self._is_finished(file, now):
            return False
        if data:
            self._take(len(data), decode_torn(data), now)
        self._files.finish_first()
        return True

    def _pass_over(self, empty: LogFile, now: float) -> bool:
        """A file was rotated before anything came."""
        if not self._is_finished(empty, now):
            return False
        self._files.finish_first()
        return True

    def _is_finished(self, file: LogFile, now: float) -> bool:
        """Whether the runtime writes elsewhere: it may write into a renamed file for a moment."""
        has_successor = any(each.head for each in self._files.files if each is not file)
        return has_successor and (file.packed or now - self.moved_at >= QUIET_S)

    def _take(self, size: int, text: bytes, now: float) -> None:
        """So many bytes of the file are this text."""
        self._append(text)
        self._at = Position(self._at.head, self._at.offset + size, self._at.log_bytes)
        self.moved_at = now

    def _append(self, text: bytes) -> None:
        there = min(len(text), self._again)
        rest = memoryview(text)[there:]
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        self._again -= there
        self._at = Position(self._at.head, self._at.offset, self._at.log_bytes + len(text))

    def _remember(self, position: Position) -> None:
        if position != self._saved:
            os.fdatasync(self._fd)
            write_atomically(self._file, json.dumps({**asdict(position), "head": position.head.hex()}))
            self._saved = position


def _load(file: Path) -> Position:
    try:
        given = json.loads(file.read_text("ascii"))
        return Position(bytes.fromhex(given["head"]), int(given["offset"]), int(given["log_bytes"]))
    except (OSError, ValueError, TypeError, KeyError):
        return Position()
