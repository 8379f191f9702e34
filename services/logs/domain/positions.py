"""How far a stored file is, and what a chunk that arrives does to it.

Chunks come at least once and not always in order. A file takes exactly the bytes that follow those it has: what it has
already is cut off (`repeat` where nothing is left), what lies beyond its end is dropped (`gap`) and the agent is told
to send again from there.

The agent counts offsets within a *generation* of the file (see `shared.logs_wire`). The generations of a log are stored
one behind the other, `base` is where the present one begins. Those of an event file are stored as files of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from shared.logs_wire import Chunk, Kept

Effect = Literal["append", "repeat", "gap"]


@dataclass(frozen=True, slots=True)
class Position:
    """What is stored of a file: its present generation, where that begins, all bytes, whether it is complete."""

    generation: int = 1
    base: int = 0
    size: int = 0
    ended: bool = False

    @property
    def kept(self) -> int:
        """Offset within the generation up to which all is stored."""
        return self.size - self.base


@dataclass(frozen=True, slots=True)
class Admission:
    """The position after a chunk, and the part of the chunk's bytes that is stored now."""

    effect: Effect
    position: Position
    data: bytes = b""

    @property
    def changes(self) -> bool:
        """Whether there is anything to make durable."""
        return self.effect == "append"


def admit(position: Position, chunk: Chunk) -> Admission:
    """What the chunk does to a file at this position."""
    if chunk.generation < position.generation or position.ended:
        return _admit_after_end(position, chunk)
    if chunk.generation > position.generation and chunk.offset > 0:
        return Admission("gap", position)
    begun = position if chunk.generation == position.generation else _begin(position, chunk)
    if chunk.offset > begun.kept:
        return Admission("gap", position)
    data = chunk.data[begun.kept - chunk.offset :]
    ended = chunk.end is not None and chunk.end == begun.kept + len(data)
    after = replace(begun, size=begun.size + len(data), ended=ended)
    return Admission("repeat" if after == position else "append", after, data)


def announcement(position: Position, chunk: Chunk, *, gap: bool) -> Kept:
    """What the agent is told after the chunk."""
    if gap and chunk.generation > position.generation:
        return Kept(chunk.file, 0, generation=chunk.generation, gap=True)
    return Kept(chunk.file, position.kept, ended=position.ended, generation=position.generation, gap=gap)


def _admit_after_end(position: Position, chunk: Chunk) -> Admission:
    """A complete file takes nothing any more, unless the agent says that it began anew."""
    if position.ended and chunk.generation > position.generation and chunk.offset == 0:
        return admit(replace(position, ended=False), chunk)
    return Admission("repeat", position)


def _begin(position: Position, chunk: Chunk) -> Position:
    if chunk.file.kind != "log":
        return Position(generation=chunk.generation)
    return Position(generation=chunk.generation, base=position.size, size=position.size)
