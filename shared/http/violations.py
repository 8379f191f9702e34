"""What FastAPI found wrong with query, path, headers and body, in Trainmaster's words.

Codes are those of documents (`shared.documents.parsing`), whichever of pydantic's many kinds of error it was; sentences
say what was given and what would be accepted. Pointers of a violation are relative to the body, such as `/spec/roles`;
values that stand elsewhere are named by the place: `/query/limit`, `/header/if-match`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from shared.documents.fields import shown
from shared.documents.parsing import json_kind, pointer
from shared.errors import Violation

_PLACES: Final = ("query", "path", "header", "cookie")
_LIMITS: Final[Mapping[str, str]] = {
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "greater_than": "more than {gt}",
    "less_than": "less than {lt}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
}
_WANTED: Final[Mapping[str, str]] = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "datetime": "a time such as 2026-01-31T12:00:00Z",
    "timezone": "a time with its zone, such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "model": "an object",
}


def violations_of(found: Iterable[Mapping[str, Any]]) -> tuple[Violation, ...]:
    """Each of the errors that a RequestValidationError lists."""
    return tuple(_violation(error) for error in found)


def _violation(error: Mapping[str, Any]) -> Violation:
    code, sentence = _say(error)
    return Violation(_pointer(error["loc"]), code, sentence)


def _pointer(loc: Sequence[str | int]) -> str:
    return pointer(loc if loc and loc[0] in _PLACES else loc[1:])


def _say(error: Mapping[str, Any]) -> tuple[str, str]:
    kind, name = str(error["type"]), str(error["loc"][-1])
    match kind:
        case "missing":
            return "required", f"{name} is missing"
        case "extra_forbidden":
            return "unknown-key", f"{shown(name)} is nothing that is taken here; leave it out"
        case "enum" | "literal_error":
            return "not-a-choice", f"{_given(error)} is not among the choices; give {error['ctx']['expected']}"
        case _ if kind in _LIMITS:
            wrong = "is empty" if _is_too_short(error) and not error["input"] else "is out of range"
            return "out-of-range", f"{_given(error)} {wrong}; give {_limit(error)}"
        case own if "-" in own:
            return own, str(error["msg"])
    return "wrong-type", f"{_given(error)} is not what is taken here{_wanted(kind)}"


def _is_too_short(error: Mapping[str, Any]) -> bool:
    return str(error["type"]).endswith("too_short")


def _limit(error: Mapping[str, Any]) -> str:
    """What would be accepted; of one thing in the singular."""
    limit = _LIMITS[str(error["type"])].format_map(error["ctx"])
    return limit.removesuffix("s") if limit.startswith(("at least 1 ", "at most 1 ")) else limit


def _wanted(kind: str) -> str:
    wanted = _WANTED.get(kind.partition("_")[0])
    return f"; give {wanted}" if wanted else ""


def _given(error: Mapping[str, Any]) -> str:
    given = error["input"]
    return shown(given) if isinstance(given, str) else str(given) if isinstance(given, int) else json_kind(given)
