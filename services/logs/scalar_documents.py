"""Curves as JSON and CSV. Points are columns, since a reader wants columns and a million objects would be slow."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from services.logs.domain.curves import Curve, Summary
from shared.clock import rfc3339

_CSV_ROWS: Final = 5000
_CSV_HEADER: Final = ("attempt", "run", "tag", "step", "time", "value")
_LATEST_S: Final = 253_402_300_799  # the end of the year 9999
_DANGEROUS_IN_A_CELL: Final = ("=", "+", "-", "@", "\t", "\r")


class ScalarPoints(BaseModel):
    """One curve; `steps`, `times` and `values` have the same length."""

    attempt: int
    run: str
    tag: str
    count: int = Field(description="how many points there are, also those that are not given")
    steps: list[int]
    times: list[str | None]
    values: list[float | None] = Field(description="null where the value is no finite number")


def curve_document(curve: Curve) -> dict[str, Any]:
    """A curve as the API tells it."""
    series = curve.series
    return {
        **curve.key._asdict(),
        "count": curve.count,
        "steps": series.steps.tolist(),
        "times": _times(series.times_s),
        "values": _finite(series.values),
    }


def summary_document(summary: Summary) -> dict[str, Any]:
    """A curve as a list tells it."""
    return {
        **summary.key._asdict(),
        "count": summary.count,
        "lastStep": summary.last_step,
        "lastTime": _time(summary.last_time_s),
        "lastValue": _or_none(summary.last_value),
        "lowest": _or_none(summary.lowest),
        "highest": _or_none(summary.highest),
    }


def csv_pieces(curves: Iterable[Curve]) -> Iterator[str]:
    """The text of a CSV file with every point; NaN and infinities are written as such."""
    yield _csv([_CSV_HEADER])
    for curve in curves:
        attempt, run, tag = curve.key
        cells = (attempt, _safe_cell(run), _safe_cell(tag))
        series = curve.series
        for first in range(0, len(series.steps), _CSV_ROWS):
            part = slice(first, first + _CSV_ROWS)
            columns = zip(series.steps[part].tolist(), _times(series.times_s[part]), series.values[part], strict=True)
            yield _csv((*cells, step, time or "", repr(float(value))) for step, time, value in columns)


def _csv(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _safe_cell(text: str) -> str:
    """A name that spreadsheets do not take for a formula."""
    return f"'{text}" if text.startswith(_DANGEROUS_IN_A_CELL) else text


def _times(times_s: NDArray[np.float64]) -> list[str | None]:
    """RFC 3339; None where the file says something that is no time."""
    valid = (times_s >= 0) & (times_s <= _LATEST_S)
    moments = (np.where(valid, times_s, 0) * 1000).astype("M8[ms]")
    texts: list[str] = (np.datetime_as_string(moments)).tolist()
    if valid.all():
        return [f"{text}Z" for text in texts]
    return [f"{text}Z" if good else None for text, good in zip(texts, valid.tolist(), strict=True)]


def _time(time_s: float) -> str | None:
    return rfc3339(datetime.fromtimestamp(time_s, UTC)) if 0 <= time_s <= _LATEST_S else None


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    finite = np.isfinite(values)
    if finite.all():
        numbers: list[float | None] = values.tolist()
        return numbers
    return [value if good else None for value, good in zip(values.tolist(), finite.tolist(), strict=True)]


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
