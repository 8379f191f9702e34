from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainmaster.manifests.scalars import LARGEST_INTEGER, is_plain_text, plain_value


@pytest.mark.parametrize("text", ["on", "off", "yes", "no", "On", "YES", "y", "n"])
def test_words_that_yaml_1_1_takes_for_booleans_are_text(text: str) -> None:
    assert plain_value(text) == text


@pytest.mark.parametrize("text", ["1:30", "190:20:30", "2026-01-02", "2026-01-02T03:04:05Z", "1_000", "0b11", "1.2.3"])
def test_times_dates_and_other_things_that_yaml_1_1_converts_are_text(text: str) -> None:
    assert plain_value(text) == text


@pytest.mark.parametrize("text", ["012", "-07", "0123456", "00", "01.5", "0777"])
def test_numbers_with_a_leading_zero_are_text_so_that_nothing_of_them_is_lost(text: str) -> None:
    assert plain_value(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-0", 0),
        ("42", 42),
        ("+42", 42),
        ("0o17", 15),
        ("0x1F", 31),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        (str(LARGEST_INTEGER), LARGEST_INTEGER),
    ],
)
def test_what_the_core_schema_converts_is_converted(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.inf", "+.INF", "1e999", "-1e999"])
def test_what_json_has_no_number_for_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="quote it"):
        plain_value(text)


@pytest.mark.parametrize("text", [str(LARGEST_INTEGER + 1), "-" + "9" * 5000, "0x" + "f" * 30])
def test_integers_that_would_be_rounded_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="2\\^53-1"):
        plain_value(text)


@given(st.one_of(st.integers(-LARGEST_INTEGER, LARGEST_INTEGER), st.booleans(), st.none()))
def test_json_scalars_mean_the_same_in_yaml(value: object) -> None:
    assert plain_value(json.dumps(value)) == value


@given(st.text(alphabet="0123456789.eExo+-_:~nulltrefas", max_size=12))
def test_every_plain_scalar_is_a_value_that_json_carries_or_is_refused(text: str) -> None:
    try:
        value = plain_value(text)
    except ValueError:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert is_plain_text(text) == isinstance(value, str)


def test_a_text_that_would_be_refused_is_no_plain_text() -> None:
    assert not is_plain_text("1e999")
    assert yaml.safe_load("1e999") == "1e999"  # which is why PyYAML would write it without quotes
