"""Durations, memory and CPU: what is accepted, what is refused, and that printing reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.units import GIB, MIB, format_bytes, format_duration, parse_cpu, parse_duration_s, parse_memory


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h30m", 9000), ("1h0m5s", 3605), ("500ms", 0.5), ("0s", 0), ("1m500ms", 60.5)],
)
def test_go_style_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "1d", "-1s", "1.5h", "s", "5 m", "30M", "1m1h", "１s", "9" * 40 + "s", "9000h", "1s\n"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_s(text)


@given(st.integers(0, 366 * 24 * 3600 * 1000))
def test_a_printed_duration_reads_back(millis: int) -> None:
    assert parse_duration_s(format_duration(millis / 1000)) == pytest.approx(millis / 1000)


def test_memory_is_binary() -> None:
    assert (parse_memory("512Mi"), parse_memory("4Gi")) == (512 * MIB, 4 * GIB)
    assert (format_bytes(4 * GIB), format_bytes(1536 * MIB), format_bytes(10)) == ("4Gi", "1.5Gi", "10B")


@pytest.mark.parametrize("text", ["", "4", "4G", "4GiB", "-1Gi", "1.5Gi", "4gi", "1" * 10 + "Gi", "٤Gi"])
def test_anything_else_is_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize(("value", "millis"), [(2, 2000), (0.5, 500), ("2", 2000), ("500m", 500), ("0.25", 250)])
def test_cpu_becomes_millicores(value: str | float, millis: int) -> None:
    assert parse_cpu(value) == millis


@pytest.mark.parametrize("value", ["", "x", "0", "-1", "0.0001", "1e9", "NaN", "inf", "1.5m", "m"])
def test_anything_else_is_no_cpu(value: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        parse_cpu(value)
