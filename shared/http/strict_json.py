"""Reads a JSON body as RFC 8259 means it, and says exactly what is wrong where it is not.

The standard library's parser is lenient where two readers may disagree about the meaning of a document: it takes `NaN`,
lets the last of two equal keys win, turns `1e999` into infinity, guesses UTF-16, and keeps half a surrogate pair, which
then cannot be written anywhere. All of these are refused here, and so is nesting deeper than anybody writes by hand.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from shared.errors import MalformedError

MAX_DEPTH: Final = 64


def parse(body: bytes) -> Any:
    """The value that the body holds; raises MalformedError with the place and the reason."""
    text = _text_of(body)
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedError(f"the body is no JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedError(f"the body has a number that cannot be read: {error}") from None
    _check_tree(value)
    return value


def _text_of(body: bytes) -> str:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"the body is not UTF-8: byte {error.start} cannot be read; send JSON in UTF-8") from None
    if text.startswith("\ufeff"):
        raise MalformedError("the body starts with a byte order mark; send JSON in UTF-8 without one")
    return text


def _no_constant(name: str) -> NoReturn:
    raise MalformedError(f"the body has {name}, which is no JSON; numbers are finite")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MalformedError(f"the number {text[:40]} is too large for a 64-bit float")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise MalformedError(f"the key {twice[:80]!r} stands twice in one object; each key may stand once")
    return members


def _too_deep() -> MalformedError:
    return MalformedError(f"the body is nested deeper than {MAX_DEPTH} levels")


def _check_tree(value: Any) -> None:
    """Depth and surrogates, level by level, so that no input can exhaust the stack."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = [child for node in level for child in _children(node)]


def _children(node: Any) -> list[Any]:
    match node:
        case str():
            _check_text(node)
        case dict():
            for key in node:
                _check_text(key)
            return list(node.values())
        case list():
            return node
    return []


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise MalformedError(f"the text {ascii(text)[:80]} has half a surrogate pair, which is no character")
