"""JSON values to models: the pointer, code and sentence of each kind of error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import pytest
from pydantic import Field, StrictInt

from shared.documents import Document, must_parse, parse
from shared.documents.fields import Duration, Name
from shared.documents.parsing import pointer
from shared.errors import InvalidInputError


class Inner(Document):
    """A list item."""

    size: StrictInt = Field(ge=1, le=3, description="an integer from 1 to 3")


class Outer(Document):
    """Every shape that a location can lead through."""

    name: Name = Field(description="a name")
    items: tuple[Inner, ...] = Field((), description="a list of items")
    by_name: Mapping[Name, Inner] = Field({}, description="an object of items")
    maybe: Inner | None = Field(None, description="an item")
    words: tuple[Annotated[str, Field(min_length=1, max_length=3)], ...] = Field(
        (), max_length=2, description="a list of at most two words of 1 to 3 characters"
    )
    wait_s: Duration = Field(1.0, alias="wait", description="a duration such as 30s")


def errors_of(document: object) -> list[tuple[str, str, str]]:
    return [(v.pointer, v.code, v.message) for v in parse(Outer, document)[1]]


def test_errors_are_found_below_lists_objects_and_optional_places() -> None:
    document = {"name": "n", "items": [{"size": 9}], "byName": {"a": {"size": "1"}}, "maybe": {"sise": 1}}
    assert errors_of(document) == [
        ("/items/0/size", "out-of-range", "9 is out of range; give an integer from 1 to 3"),
        ("/byName/a/size", "wrong-type", "this is a string; give an integer from 1 to 3"),
        ("/maybe/size", "required", "size is missing; give an integer from 1 to 3"),
        ("/maybe/sise", "unknown-key", "'sise' is no key of this place; did you mean size?"),
    ]


def test_a_wrong_length_is_called_so_and_not_a_wrong_type() -> None:
    wanted = "give a list of at most two words of 1 to 3 characters"
    assert errors_of({"name": "n", "words": ["", "abcd"]}) == [
        ("/words/0", "out-of-range", f"this has fewer characters than 1, the least accepted; {wanted}"),
        ("/words/1", "out-of-range", f"this has more characters than 3, the most accepted; {wanted}"),
    ]
    assert errors_of({"name": "n", "words": ["a", "b", "c"]}) == [
        ("/words", "out-of-range", f"this has more items than 2, the most accepted; {wanted}")
    ]


def test_a_wrong_key_of_an_object_is_named_at_that_key() -> None:
    assert [error[:2] for error in errors_of({"name": "n", "byName": {"a/b~": {"size": 1}}})] == [
        ("/byName/a~1b~0", "name-character")
    ]


def test_python_names_are_not_accepted_for_keys() -> None:
    assert [error[:2] for error in errors_of({"name": "n", "by_name": {}, "wait_s": "1s"})] == [
        ("/by_name", "unknown-key"),
        ("/wait_s", "unknown-key"),
    ]


def test_half_a_surrogate_pair_is_named_wherever_it_stands() -> None:
    found = errors_of({"name": "a\ud800", "items": ["\udc00"], "\ud801": 1})
    assert {(place, code) for place, code, _ in found} == {
        ("/name", "not-unicode"),
        ("/items/0", "not-unicode"),
        ("/\\ud801", "not-unicode"),
    }
    for place, _, sentence in found:
        (place + sentence).encode()


def test_durations_are_seconds_in_python_and_text_in_json() -> None:
    outer = must_parse(Outer, {"name": "n", "wait": "90s"})
    assert outer.wait_s == 90
    assert outer.model_dump(mode="json")["wait"] == "1m30s"


def test_must_parse_raises_with_all_violations() -> None:
    with pytest.raises(InvalidInputError) as caught:
        must_parse(Outer, {"items": 1})
    assert [v.code for v in caught.value.violations] == ["required", "wrong-type"]


def test_pointers_escape_as_rfc_6901_says() -> None:
    assert pointer(("a/b", 0, "m~n")) == "/a~1b/0/m~0n"
