from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from trainmaster.decoding import Fields
from trainmaster.errors import UnexpectedAnswerError


def test_what_is_absent_or_null_takes_its_default() -> None:
    fields = Fields.of({"a": None})
    assert (fields.text("a"), fields.integer("b", 7), fields.optional_integer("a"), fields.texts("c")) == (
        "",
        7,
        None,
        (),
    )
    assert fields.time("a") is None
    assert list(fields.fields("x").each("y")) == []
    assert math.isnan(fields.number("a"))


def test_times_are_read_with_their_zone() -> None:
    assert Fields.of({"t": "2026-01-02T03:04:05.678Z"}).time("t") == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


@pytest.mark.parametrize(
    "read",
    [
        lambda fields: fields.text("x"),
        lambda fields: fields.integer("x"),
        lambda fields: fields.texts("x"),
        lambda fields: fields.fields("x"),
        lambda fields: fields.time("time"),
        lambda fields: list(fields.each("items")),
    ],
)
def test_a_wrong_type_is_an_error_that_names_the_place(read: object) -> None:
    assert callable(read)
    with pytest.raises(UnexpectedAnswerError, match="/here/"):
        read(Fields({"x": 1.5, "time": "noon", "items": ["text"]}, "/here"))


def test_what_is_no_object_is_an_error() -> None:
    with pytest.raises(UnexpectedAnswerError, match="list where an object was due"):
        Fields.of([])
