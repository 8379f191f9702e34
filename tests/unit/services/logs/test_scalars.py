"""Curves from stored event files: read on instead of again, thinned where there are too many points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.logs import scalars as scalars_module
from services.logs.adapters.layout import Layout
from services.logs.domain.curves import Summary, Wanted, summary_of
from services.logs.scalars import ScalarReader
from shared.logs_wire import FileRef, ReplicaRef
from tests.support.event_files import record, scalars

JOB = "tj-a"


def write(layout: Layout, data: bytes, path: str = "a.tfevents", attempt: int = 1, generation: int = 1) -> Path:
    file = layout.event_file(FileRef(ReplicaRef(JOB, attempt, "worker", 0), "tb", path), generation)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as target:
        target.write(data)
    return file


def values(reader: ScalarReader) -> list[float]:
    (curve,) = reader.curves(JOB)
    return curve.series.values.tolist()


def test_only_what_is_new_is_read(tmp_path: Path):
    layout = Layout(tmp_path)
    reader = ScalarReader(layout)
    file = write(layout, scalars("loss", [1.0, 2.0]))
    assert values(reader) == [1.0, 2.0]
    size = file.stat().st_size
    with file.open("r+b") as target:  # what was read once is not looked at again
        target.write(bytes(size))
    write(layout, scalars("loss", [3.0]))
    assert values(reader) == [1.0, 2.0, 3.0]


def test_the_generations_of_a_file_are_one_curve(tmp_path: Path):
    layout = Layout(tmp_path)
    write(layout, scalars("loss", [1.0]))
    write(layout, scalars("loss", [2.0]), generation=2)
    assert values(ScalarReader(layout)) == [1.0, 2.0]


def test_a_record_longer_than_what_is_read_at_once_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scalars_module, "_READ_BYTES", 64)
    layout = Layout(tmp_path)
    write(layout, scalars("loss", [1.0]) + record(b"\x1a\xe8\x07" + bytes(1000)) + scalars("loss", [2.0]))
    assert values(ScalarReader(layout)) == [1.0, 2.0]


def test_files_that_were_not_asked_for_lately_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scalars_module, "CACHED_POINTS", 5)
    layout = Layout(tmp_path)
    for number in range(4):
        write(layout, scalars("loss", [float(number)] * 3), f"{number}/a.tfevents")
    reader = ScalarReader(layout)
    assert len(reader.curves(JOB)) == 4
    assert len(reader._files) < 4
    assert [curve.count for curve in reader.curves(JOB)] == [3] * 4


def test_attempts_are_given_together_where_they_are_asked_for(tmp_path: Path):
    layout = Layout(tmp_path)
    write(layout, scalars("loss", [1.0]), attempt=1)
    write(layout, scalars("loss", [2.0]), attempt=2)
    write(layout, scalars("acc", [3.0]), "train/a.tfevents", attempt=2)
    reader = ScalarReader(layout)
    assert [curve.key for curve in reader.curves(JOB, Wanted(frozenset()))] == [
        (1, "", "loss"),
        (2, "", "loss"),
        (2, "train", "acc"),
    ]
    assert [curve.key for curve in reader.curves(JOB, Wanted(frozenset({1})))] == [(1, "", "loss")]
    assert [curve.key for curve in reader.curves(JOB, Wanted(tags=frozenset({"acc"})))] == [(2, "train", "acc")]
    assert [curve.key for curve in reader.curves(JOB, Wanted(run=""))] == [(2, "", "loss")]


def test_the_summary_tells_the_last_point_and_the_finite_extremes(tmp_path: Path):
    layout = Layout(tmp_path)
    write(layout, scalars("loss", [1.0, math.inf, -2.0, 0.5]))
    (curve,) = ScalarReader(layout).curves(JOB)
    assert summary_of(curve) == Summary((1, "", "loss"), 4, 3, 1_700_000_003.0, 0.5, -2.0, 1.0)


def test_a_file_that_is_deleted_between_the_list_and_the_reading_is_empty(tmp_path: Path):
    class Vanishing(Layout):
        def event_files(self, replica: ReplicaRef) -> Iterator[tuple[str, Path]]:
            for path, file in super().event_files(replica):
                file.unlink()
                yield path, file

    layout = Vanishing(tmp_path)
    write(layout, scalars("loss", [1.0]))
    assert ScalarReader(layout).curves(JOB) == []


def test_a_job_without_event_files_has_no_curves(tmp_path: Path):
    assert ScalarReader(Layout(tmp_path)).curves(JOB) == []
