"""What is wrong, where: `FILE:LINE:COLUMN`, the sentence, the line itself and a caret under the culprit.

Faults found while reading the file and violations that the platform reports look the same. Violations come with JSON
pointers, an empty one where the whole document is meant; the manifest knows the place of each. A missing key is shown
at what it is missing from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from trainmaster.errors import ApiError, Violation
from trainmaster.manifests.reader import Manifest
from trainmaster.manifests.source import ManifestError, Source, Span
from trainmaster.rendering.style import printable

EXCERPT_CELLS: Final = 100
_CODES_OF_KEYS: Final = frozenset({"unknown-key", "reserved-name", "env-name-invalid"})
_CUT: Final = "…"


def manifest_error(error: ManifestError) -> Text:
    """Every fault of a file that could not be read."""
    blocks = (_block(error.source, fault.span, fault.message) for fault in error.faults)
    return _joined(blocks)


def violations(found: Iterable[Violation], manifest: Manifest) -> Text:
    """Every violation at its place in the file, from the top down."""
    in_order = sorted(found, key=lambda violation: _line_of(violation, manifest))
    return _joined(_violation(violation, manifest) for violation in in_order)


def problem(error: ApiError) -> Text:
    """A refusal that has no place in a file, in one block."""
    told = error.problem
    facts = [f"{told.code}, HTTP {told.status}"] + ([f"request {told.request_id}"] if told.request_id else [])
    repeated = bool(told.violations) and all(violation.message in error.message for violation in told.violations)
    message = told.title if repeated else error.message
    block = Text.assemble(("error: ", "bold red"), _lines(message), "\n  ", (printable(", ".join(facts)), "dim"))
    for violation in told.violations:
        place = f"{printable(violation.pointer)}: " if violation.pointer else ""
        block.append(f"\n  {place}{_lines(violation.message)} [{violation.code}]")
    return block


def plain_error(message: str) -> Text:
    """An error that is just a sentence."""
    return Text.assemble(("error: ", "bold red"), _lines(message))


def place_of(violation: Violation, manifest: Manifest) -> Span:
    """Where to point: at a scalar itself; at the key where the key is wrong, or where the value is a whole block."""
    place = manifest.place(violation.pointer)
    absent = violation.pointer not in manifest.places
    at_key = violation.code in _CODES_OF_KEYS or absent or not place.is_scalar
    return place.key if place.key and at_key else place.value


def _line_of(violation: Violation, manifest: Manifest) -> tuple[int, int]:
    place = place_of(violation, manifest)
    return place.line, place.column


def _violation(violation: Violation, manifest: Manifest) -> Text:
    note = ", ".join(filter(None, (violation.pointer, violation.code)))
    return _block(manifest.source, place_of(violation, manifest), violation.message, note)


def _block(source: Source, span: Span, message: str, note: str = "") -> Text:
    place = f"{printable(source.name)}:{span.line}:{span.column}: "
    block = Text.assemble((place, "bold"), ("error: ", "bold red"), _lines(message))
    if note:
        block.append(f"  [{printable(note)}]", style="dim")
    line = source.line(span.line)
    if line.strip():
        number = f"{span.line:>5}"
        shown, pad, width = _excerpt(line, span)
        block.append(f"\n{number} | {shown}\n{' ' * len(number)} | {' ' * pad}")
        block.append("^" * width, style="bold red")
    return block


def _excerpt(line: str, span: Span) -> tuple[str, int, int]:
    """As much of the line as fits, the cells before the culprit in it, and the cells of the culprit."""
    start = max(0, span.column - 1 - EXCERPT_CELLS // 2) if cell_len(line) > EXCERPT_CELLS else 0
    end = start + EXCERPT_CELLS
    before = (_CUT if start else "") + _flat(line[start : span.column - 1])
    culprit = _flat(line[span.column - 1 : min(span.end_column - 1, end)])
    after = _flat(line[min(span.end_column - 1, end) : end]) + (_CUT if len(line) > end else "")
    return before + culprit + after, cell_len(before), max(cell_len(culprit), 1)


def _flat(part: str) -> str:
    """Tabs as one cell, so that the caret stands right whatever the terminal's tab stops."""
    return printable(part.replace("\t", " "))


def _lines(message: str) -> str:
    return "\n  ".join(printable(line) for line in message.splitlines())


def _joined(blocks: Iterator[Text]) -> Text:
    return Text("\n").join(blocks)
