"""Bundles: the events of an ended job in few compressed messages, as the stream ARCHIVE has them.

A bundle is one zstd frame over JSON lines, so `zstd -d` shows it. A line has `sequence` and `subject` that an event had
in JOBS, and its `text` as it was written, so that nothing is lost by reading and writing it again. A job's bundles, one
behind the other, are its events in their order; where one was written twice, a sequence that is known already counts
for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

from shared.errors import TrainmasterError
from shared.units import KIB, MIB

# As text; a single event has at most half of it, and a message of NATS at most a mebibyte.
BUNDLE_MAX_BYTES: Final = 512 * KIB
_TEXT_MAX_BYTES: Final = 8 * MIB
_LEVEL: Final = 12


class MalformedBundleError(TrainmasterError):
    """Bytes that are no bundle."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of JOBS as the stream holds it."""

    sequence: int
    subject: str
    body: bytes


def pack(messages: Iterable[Stored]) -> Iterator[bytes]:
    """Bundles of these messages; raises UnicodeDecodeError where one is no text, and so no event."""
    lines: list[str] = []
    size = 0
    for message in messages:
        if lines and size + len(message.body) > BUNDLE_MAX_BYTES:
            yield _compressed(lines)
            lines, size = [], 0
        text = message.body.decode()
        lines.append(json.dumps({"sequence": message.sequence, "subject": message.subject, "text": text}))
        size += len(message.body)
    if lines:
        yield _compressed(lines)


def unpack(bundle: bytes) -> tuple[Stored, ...]:
    """The messages of a bundle; raises MalformedBundleError."""
    try:
        text = zstandard.ZstdDecompressor().decompress(bundle, max_output_size=_TEXT_MAX_BYTES)
        lines = [json.loads(line) for line in text.splitlines()]
        return tuple(Stored(int(line["sequence"]), line["subject"], line["text"].encode()) for line in lines)
    except (zstandard.ZstdError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedBundleError(f"no bundle of events: {error}") from error


def merged(*parts: Iterable[Stored]) -> list[Stored]:
    """All messages of the parts, each sequence once, in their order."""
    known: dict[int, Stored] = {}
    for part in parts:
        for message in part:
            known.setdefault(message.sequence, message)
    return [known[sequence] for sequence in sorted(known)]


def _compressed(lines: list[str]) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress("\n".join(lines).encode())
