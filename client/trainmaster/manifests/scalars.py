"""What a plain (unquoted) YAML scalar means: the core schema of YAML 1.2, minus its surprises.

Only `true` and `false` are booleans: `on`, `off`, `yes`, `no` are text. `1:30` and `2026-01-02` are text too. A number
with a leading zero stays text (`012` is neither ten nor twelve), so that short commit hashes and zip codes survive.
What JSON cannot carry exactly, NaN, infinities and integers beyond 2^53, is refused and not rounded.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

LARGEST_INTEGER: Final = 2**53 - 1

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_OTHER_BASE: Final = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


def plain_value(text: str) -> Scalar:
    """The value of a plain scalar; raises ValueError for a number that JSON cannot carry."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _DECIMAL.fullmatch(text):
        return _integer(text, 10)
    if _OTHER_BASE.fullmatch(text):
        return _integer(text, 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        return _float(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is no number that JSON has; quote it if it is meant as text")
    return text


def is_plain_text(text: str) -> bool:
    """Whether the text, written without quotes, would be read as that text again."""
    try:
        return plain_value(text) == text
    except ValueError:
        return False


def _integer(text: str, base: int) -> int:
    digits = text[2:] if base != 10 else text
    value = int(digits, base) if len(digits) <= 20 else LARGEST_INTEGER + 1
    if abs(value) > LARGEST_INTEGER:
        raise ValueError(f"{text[:40]} is larger than 2^53-1, the largest integer kept exact; quote it if it is text")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large for a number; quote it if it is meant as text")
    return value
