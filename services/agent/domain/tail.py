"""One file on its way: what is known of it on disk, how far it is sent and kept, and which chunk comes next.

A `Tail` does no input or output. Its owner looks at the file and tells (`looked`), asks for the next piece (`plan`),
reads those bytes and has them made into a chunk (`pack`).

A file may be truncated, rewritten or replaced under the agent; `> /dev/stdout` in a start command truncates the log.
This is seen when the file is shorter than what was ever published of it, when the last bytes that were published do not
stand there any more, or when its path names another file and everything of the old one is kept. The file then begins
anew as the next *generation*: offsets start at 0, and in a log a notice stands where bytes may be missing. The number
of the generation must be on disk before a chunk of it is sent (`unsaved`), else a restart could mix up two contents
under one number. How far was published is remembered, too; a truncation is overlooked only where the agent is killed
before it could remember (within a second) and the file is truncated before the next agent has sent as much again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.agent.domain.marks import Marks
from services.agent.domain.offsets import Offsets, Piece
from shared.logs_wire import Chunk, FileRef, Kept

FINGERPRINT_BYTES: Final = 32
NOTICE: Final = b"\n[trainmaster] the log file was truncated or replaced here; bytes before this line may be missing\n"


@dataclass(frozen=True, slots=True)
class Look:
    """What a file looked like: size and time of modification of the open file, and whether its path names another."""

    size: int
    modified_ms: int
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class SavedTail:
    """What must survive a restart of the agent; `fingerprint` are the last bytes before `published`."""

    file: FileRef
    generation: int
    kept: int
    published: int
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class Read:
    """Where in the file on disk the bytes of a piece are, and where which bytes must still stand."""

    generation: int
    piece: Piece
    offset: int
    length: int
    check_offset: int
    check: bytes


class Tail:
    """State of one file that is being shipped."""

    def __init__(self, file: FileRef, node: str, saved: SavedTail | None = None) -> None:
        self.file = file
        self.generation = saved.generation if saved else 1
        self.offsets = Offsets(saved.kept if saved else 0)
        self.complete = False
        self.dirty = False
        self.unsaved = False
        self._node = node
        self._size = 0
        self._replaced = False
        self._marks = Marks()
        self._published = saved.published if saved else 0
        self._fingerprint = saved.fingerprint if saved else b""

    @property
    def size(self) -> int:
        """Bytes of this generation, the notice included."""
        return self._size

    @property
    def done(self) -> bool:
        """Whether all of the file is kept, the end mark included."""
        return self.offsets.ended

    def looked(self, look: Look, now_ms: int) -> bool:
        """Take in what the file looks like; true where it must be opened anew, as another generation."""
        size = look.size + len(self._notice)
        shrunk = look.size < self._on_disk(self._published)
        if shrunk or (look.replaced and self.offsets.kept >= size):
            self.begin_generation()
            return True
        self._size = size
        self._replaced = look.replaced
        self._marks.grown(size, min(look.modified_ms, now_ms))
        return False

    def begin_generation(self) -> None:
        """The content is another one from here on."""
        self.generation += 1
        self._start_at(0)
        self.unsaved = self.dirty = True

    def plan(self, now: float) -> Read | None:
        """What to read and publish next."""
        if self.unsaved:
            return None
        self.offsets.check_silence(now)
        complete = self.complete and not self._replaced
        piece = self.offsets.next_piece(self._size, complete=complete, now=now)
        if piece is None:
            return None
        start, stop = self._on_disk(piece.offset), self._on_disk(piece.offset + piece.length)
        check_offset = self._on_disk(self._published) - len(self._fingerprint)
        return Read(self.generation, piece, start, stop - start, check_offset, self._fingerprint)

    def pack(self, read: Read, data: bytes, check: bytes, now: float) -> Chunk | None:
        """The chunk of what was read; None where there is none: what is known of the file has changed since the plan.

        Where other bytes stand than those that were published, the file was written anew, and a new generation begins.
        `check` must have been read after the data.
        """
        piece = read.piece
        if read.generation != self.generation or piece.offset != self.offsets.sent:
            return None
        if check != read.check:
            self.begin_generation()
            return None
        if len(data) < read.length:
            return None
        body = self._notice[piece.offset : piece.offset + piece.length] + data
        self._note_published(piece.offset + len(body), data)
        self.offsets.published(piece, now)
        return Chunk(
            file=self.file,
            offset=piece.offset,
            data=body,
            generation=self.generation,
            times=self._marks.between(piece.offset, piece.offset + len(body)) if body else (),
            node=self._node,
            end=piece.offset if piece.is_end else None,
        )

    def announced(self, kept: Kept, now: float) -> None:
        """`logs` said how far it is with this file."""
        if kept.generation < self.generation:
            return
        if kept.generation > self.generation:
            self.generation = kept.generation
            self._start_at(kept.kept)
        before = (self.offsets.kept, self.offsets.ended)
        self.offsets.announced(kept.kept, ended=kept.ended, gap=kept.gap, now=now)
        self._marks.forget_before(self.offsets.kept)
        if self.offsets.kept > self._published:
            self._published, self._fingerprint = self.offsets.kept, b""
        self.dirty = self.dirty or before != (self.offsets.kept, self.offsets.ended)

    def saved(self) -> SavedTail:
        """What to write down."""
        return SavedTail(self.file, self.generation, self.offsets.kept, self._published, self._fingerprint)

    @property
    def _notice(self) -> bytes:
        return NOTICE if self.generation > 1 and self.file.kind == "log" else b""

    def _note_published(self, stop: int, data: bytes) -> None:
        if stop > self._published:
            new = stop - self._published
            self._fingerprint = (self._fingerprint + data[-new:])[-FINGERPRINT_BYTES:]
            self._published = stop
            self.dirty = True

    def _on_disk(self, offset: int) -> int:
        return max(0, offset - len(self._notice))

    def _start_at(self, kept: int) -> None:
        self.offsets = Offsets(kept)
        self._size = len(self._notice)
        self._replaced = False
        self._marks = Marks()
        self._published = kept
        self._fingerprint = b""
