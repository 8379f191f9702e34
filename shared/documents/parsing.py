"""From a JSON value to a model, or to every violation at once: pointer, stable code, sentence.

pydantic finds what is wrong; this module says it in Trainmaster's words. Each error location is walked down the model
to the field it belongs to, and the field's `description` (a noun phrase: "an integer from 1 to 9") becomes "give …" in
the sentence, so that a limit is written once. Codes of own validators pass through unchanged.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from shared.documents.fields import shown
from shared.errors import InvalidInputError, Violation

ModelT = TypeVar("ModelT", bound=BaseModel)
Location = Sequence[str | int]

# Enough to work with; a document of thousands of unknown keys must not come back as megabytes.
VIOLATIONS_MAX: Final = 100
# Parts of a location that are no place in the document: pydantic's own for a key, and tags of unions.
TEXT_TAG: Final = "[text]"
OBJECT_TAG: Final = "[object]"
_NO_PLACES: Final = ("[key]", TEXT_TAG, OBJECT_TAG)
_OUT_OF_RANGE: Final = (
    *("greater_than_equal", "less_than_equal", "greater_than", "less_than"),
    *("string_too_short", "string_too_long", "too_short", "too_long"),
)


def must_parse(model: type[ModelT], document: object) -> ModelT:
    """The document as a model; raises InvalidInputError with every violation."""
    parsed, violations = parse(model, document)
    if parsed is None:
        raise InvalidInputError(violations)
    return parsed


def parse(model: type[ModelT], document: object) -> tuple[ModelT | None, tuple[Violation, ...]]:
    """The document as a model, or None with every violation."""
    torn = tuple(_torn_texts(document))
    if torn:
        return None, torn[:VIOLATIONS_MAX]
    try:
        return model.model_validate(document), ()
    except ValidationError as error:
        details = error.errors(include_url=False)
    return None, tuple(_violation(model, detail) for detail in _without_echoes(details)[:VIOLATIONS_MAX])


def accepts(field: TypeAdapter[Any], value: object) -> bool:
    """Whether a value is right by itself, whatever else is wrong in the document around it."""
    try:
        field.validate_python(value)
    except ValidationError:
        return False
    return True


def pointer(location: Location) -> str:
    """RFC 6901 JSON pointer of a place in a document."""
    return "".join("/" + printable(str(part)).replace("~", "~0").replace("/", "~1") for part in location)


def printable(text: str) -> str:
    """The text without halves of surrogate pairs, which no response could carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def json_kind(value: object) -> str:
    """What JSON calls a value, with its article."""
    names: tuple[tuple[type, str], ...] = (
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (dict, "an object"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _torn_texts(document: object) -> Iterator[Violation]:
    """Violation for each key and value with half a surrogate pair: JSON can write it, UTF-8 cannot."""
    pending: list[tuple[Location, object]] = [((), document)]
    while pending:
        location, value = pending.pop()
        if isinstance(value, str) and printable(value) != value:
            yield Violation(
                pointer(location), "not-unicode", "this text has half a surrogate pair; write the character whole"
            )
        elif isinstance(value, dict):
            pending.extend(((*location, str(key)), child) for key, child in value.items())
            pending.extend(((*location, str(key)), key) for key in value if printable(str(key)) != key)
        elif isinstance(value, list):
            pending.extend(((*location, index), child) for index, child in enumerate(value))


def _without_echoes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without lists that are too short only because an item of theirs, which is told itself, was not counted."""
    wrong_within = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in wrong_within]


def _violation(model: type[BaseModel], detail: ErrorDetails) -> Violation:
    location = tuple(part for part in detail["loc"] if part not in _NO_PLACES)
    code, sentence = _say(model, location, detail)
    return Violation(pointer(location), code, sentence)


def _say(model: type[BaseModel], location: Location, detail: ErrorDetails) -> tuple[str, str]:
    field, owner = _field_at(model, location)
    wanted = (field.description if field else None) or "what the documentation of this place says"
    given = detail["input"]
    match detail["type"]:
        case "missing":
            return "required", f"{location[-1]} is missing; give {wanted}"
        case "extra_forbidden":
            return "unknown-key", _unknown_key(str(location[-1]), owner)
        case "literal_error" | "enum":
            choices = detail.get("ctx", {}).get("expected", wanted)
            what = shown(given) if isinstance(given, str) else json_kind(given)
            return "not-a-choice", f"{what} is not among the choices; give {choices}"
        case _ if detail["type"] in _OUT_OF_RANGE:
            return "out-of-range", f"{_excess(detail)}; give {wanted}"
        case own if "-" in own:
            return own, detail["msg"]
    what = "null is given" if given is None else f"this is {json_kind(given)}"
    return "wrong-type", f"{what}; give {wanted}"


def _excess(detail: ErrorDetails) -> str:
    limits = detail.get("ctx", {})
    unit = "characters" if detail["type"].startswith("string") else "items"
    if "min_length" in limits:
        return f"this has fewer {unit} than {limits['min_length']}, the least accepted"
    if "max_length" in limits:
        return f"this has more {unit} than {limits['max_length']}, the most accepted"
    return f"{detail['input']} is out of range"


def _unknown_key(key: str, owner: type[BaseModel] | None) -> str:
    known = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
    alike = difflib.get_close_matches(key[:64], known, n=1)
    hint = f"did you mean {alike[0]}?" if alike else f"the keys here are {', '.join(known)}"
    return f"{shown(key)} is no key of this place; {hint}"


def _field_at(model: type[BaseModel], location: Location) -> tuple[FieldInfo | None, type[BaseModel] | None]:
    """The innermost described field on the way to a location, and the model that the last part of it is a key of."""
    here: Any = model
    field: FieldInfo | None = None
    owner: type[BaseModel] | None = None
    for part in location:
        owner = here if _is_model(here) else None
        if owner:
            found = _by_alias(owner, str(part))
            field, here = found, _bare(found.annotation) if found else None
        else:
            here = _bare((get_args(here) or (None,))[-1 if _is_mapping(here) else 0])
    return field, owner


def _by_alias(model: type[BaseModel], alias: str) -> FieldInfo | None:
    return next((field for name, field in model.model_fields.items() if alias == (field.alias or name)), None)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_mapping(annotation: object) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _bare(annotation: object) -> object:
    """The annotation without `Annotated` and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return _bare(next(arg for arg in get_args(annotation) if arg is not type(None)))
    return annotation
