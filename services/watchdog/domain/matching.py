"""Finding rules in what a replica writes, chunk by chunk, with the same outcome wherever the chunks are cut.

A chunk is cleaned and cut into lines (`text`), what is complete is searched (`rulebook`), and what cannot be judged yet
is kept back. Of each rule the first line in a log is a hit; of later ones the last is kept, because a log may tell an
error that was overcome long before the same error becomes fatal.

A `Scan` is all that is remembered of a log between two chunks: some kilobytes, whatever the log's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from services.watchdog.domain import progress as progress_in
from services.watchdog.domain import text as clean
from services.watchdog.domain import torchrun
from services.watchdog.domain.phases import last_declared
from services.watchdog.domain.progress import Progress
from services.watchdog.domain.rulebook import LOOKS_MAX, Rulebook
from shared.logs_wire import Chunk

GIVEN_UP: Final = "given-up/"


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that was found: its line, up to ten lines before it, and where.

    `offset` counts bytes of cleaned text. `at_ms` is when the line was there by the clock of its machine; None where a
    line ended because nothing followed. `again`: the rule was found before, and this is a later line.
    """

    rule: str
    line: str
    before: tuple[str, ...] = ()
    offset: int = 0
    at_ms: int | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """How far a log is read: what is kept back of it, its last lines, and which rules were found.

    `block` are lines after torchrun's header while they are collected; `looks` are lines looked at in vain by rule;
    `phase` is the one declared last, by a line or by the phase file, and `filed_phase` what that file said last;
    `checkpoint` is the furthest file that was seen in the checkpoint directory.
    """

    generation: int = 1
    position: int = 0
    unfinished: bytes = b""
    line: bytes = b""
    offset: int = 0
    tail: bytes = b""
    found: frozenset[str] = field(default_factory=frozenset)
    looks: Mapping[str, int] = field(default_factory=dict)
    block: tuple[str, ...] | None = None
    progress: Progress = field(default_factory=Progress)
    progress_at_ms: int = 0
    phase: str = ""
    filed_phase: str = ""
    checkpoint: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """A scan after a chunk, and what was found in it; `gap` where bytes before the chunk are missing."""

    scan: Scan
    hits: tuple[Hit, ...] = ()
    gap: bool = False


def take(scan: Scan, chunk: Chunk, rules: Rulebook, *, over_gap: bool = False) -> Scanned:
    """Read on with a chunk. What was read before is passed over; `over_gap`: what is missing will not come any more."""
    if chunk.generation < scan.generation or (scan.ended and chunk.generation == scan.generation):
        return Scanned(scan)
    hits: list[Hit] = []
    if chunk.generation > scan.generation:
        scan = replace(_closed(scan, rules, hits), generation=chunk.generation, position=0, ended=False)
    if chunk.offset > scan.position:
        if not over_gap:
            return Scanned(scan, tuple(hits), gap=True)
        scan = replace(_closed(scan, rules, hits), position=chunk.offset)
    scan = _with_checkpoint(_with_filed_phase(_read(scan, chunk, rules, hits), chunk.phase), chunk.checkpoint)
    if chunk.end is not None and chunk.end == scan.position:
        scan = replace(_closed(scan, rules, hits), ended=True)
    return Scanned(scan, tuple(hits))


def _with_filed_phase(scan: Scan, phase: str | None) -> Scan:
    """The file is told of again and again: only what is new in it is declared later than what the log says."""
    if phase is None or phase == scan.filed_phase:
        return scan
    return replace(scan, phase=phase, filed_phase=phase)


def _with_checkpoint(scan: Scan, path: str | None) -> Scan:
    return scan if path is None or path == scan.checkpoint else replace(scan, checkpoint=path)


def last_lines(scan: Scan) -> tuple[str, ...]:
    """The last lines of the log that are not blank, one without an end included."""
    return clean.lines_before(scan.tail, scan.line, len(scan.line))


def _closed(scan: Scan, rules: Rulebook, hits: list[Hit]) -> Scan:
    """Nothing follows on what was kept back: it is text, and the end of a line."""
    text = scan.line + clean.with_line_feeds(scan.unfinished)
    text = text if not text or text.endswith(b"\n") else text + b"\n"
    scan = _search(scan, text, rules, hits, None, unfinished=b"", line=b"")
    if scan.block is None:
        return scan
    hits.append(_block_hit(scan, scan.block))
    return replace(scan, block=None)


def _read(scan: Scan, chunk: Chunk, rules: Rulebook, hits: list[Hit]) -> Scan:
    data = chunk.data[scan.position - chunk.offset :] if scan.position > chunk.offset else chunk.data
    if not data:
        return scan
    raw = scan.unfinished + data if scan.unfinished else data
    plain, unfinished = clean.without_escapes(raw)
    fed = clean.with_line_feeds(plain)
    text = scan.line + fed if scan.line else fed
    complete = clean.complete_bytes(text)
    timing = _Timing(chunk, scan.position - len(scan.unfinished), raw, len(scan.line))
    kept = {"position": scan.position + len(data), "unfinished": unfinished, "line": text[complete:]}
    return _search(scan, text[:complete], rules, hits, timing, **kept, **_progress(scan, text, chunk))


@dataclass(frozen=True, slots=True)
class _Timing:
    """When a byte of the text that is searched was there."""

    chunk: Chunk
    begin: int
    raw: bytes
    carried: int

    def at_ms(self, stop: int) -> int | None:
        """Time of the last byte before this place of the text."""
        if not self.chunk.times:
            return None
        raw = self.begin + clean.raw_length(self.raw, max(stop - self.carried, 1)) - 1
        earlier = [millis for offset, millis in self.chunk.times if offset <= raw]
        return earlier[-1] if earlier else self.chunk.times[0][1]


def _progress(scan: Scan, text: bytes, chunk: Chunk) -> dict[str, Any]:
    """Progress counts from when the first byte of the chunk was there: what stands behind it is not survived by it."""
    seen = progress_in.seen_in(text, scan.progress)
    if seen == scan.progress:
        return {}
    return {"progress": seen, "progress_at_ms": chunk.times[0][1] if chunk.times else scan.progress_at_ms}


def _search(scan: Scan, text: bytes, rules: Rulebook, hits: list[Hit], timing: _Timing | None, **kept: Any) -> Scan:
    """Search complete lines; the text begins at the beginning of one. `kept` is what else changes with it.

    A scan is made anew once a chunk, as that takes about as long as the search itself.
    """
    if not text:
        return replace(scan, **kept)
    if scan.block is not None:
        scan = _collected(scan, text, 0, hits)
    found = rules.search(text, scan.looks)
    if found.has_joints:
        text = clean.joined(text)
        found = rules.search(text, scan.looks)
    for place in found.places:
        is_new = place.rule not in scan.found
        if place.rule == torchrun.ROOT_CAUSE:
            scan = _collected(replace(scan, block=()), text, place.first[1] + 1, hits) if is_new else scan
            continue
        if is_new:
            hits.append(_hit(scan, text, place.rule, place.first, timing, again=False))
        if not is_new or place.last != place.first:
            hits.append(_hit(scan, text, place.rule, place.last, timing, again=True))
    hits += _given_up(found.looks, scan)
    return replace(
        scan,
        offset=scan.offset + len(text),
        tail=clean.tail_of(scan.tail, text),
        found=scan.found.union(place.rule for place in found.places) if found.places else scan.found,
        looks=found.looks or scan.looks,
        phase=(last_declared(text) if found.has_phases else None) or scan.phase,
        **kept,
    )


def _hit(scan: Scan, text: bytes, rule: str, span: tuple[int, int], timing: _Timing | None, *, again: bool) -> Hit:
    start, stop = span
    before = () if again else clean.lines_before(scan.tail, text, start)
    at_ms = timing.at_ms(stop) if timing is not None else None
    return Hit(rule, clean.shown(text[start:stop]), before, scan.offset + start, at_ms, again)


def _collected(scan: Scan, text: bytes, start: int, hits: list[Hit]) -> Scan:
    """Collect the lines of torchrun's block from there on."""
    wanted = torchrun.BLOCK_LINES - len(scan.block or ())
    lines = map(clean.shown, islice(clean.lines_of(text[start:]), wanted))
    block = (*(scan.block or ()), *lines)
    if len(block) < torchrun.BLOCK_LINES:
        return replace(scan, block=block)
    hits.append(_block_hit(scan, block))
    return replace(scan, block=None)


def _block_hit(scan: Scan, block: tuple[str, ...]) -> Hit:
    return Hit(torchrun.ROOT_CAUSE, torchrun.told(block), offset=scan.offset)


def _given_up(looks: Mapping[str, int], scan: Scan) -> list[Hit]:
    tired = [rule for rule, count in looks.items() if count >= LOOKS_MAX > scan.looks.get(rule, 0)]
    line = f"its fragments stand on more than {LOOKS_MAX} lines of this log, but not together; it is looked for no more"
    return [Hit(f"{GIVEN_UP}{rule}", line, offset=scan.offset) for rule in tired]
