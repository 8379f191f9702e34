"""Curves from stored event files: read on instead of again, thinned where there are too many points."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from services.logs import scalars as scalars_module
from services.logs.adapters.layout import Layout
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


def values(reader: ScalarReader) -> list[float | None]:
    (curve,) = reader.curves(JOB, None, None)
    return [point.value for point in curve.points]


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
    assert len(reader.curves(JOB, None, None)) == 4
    assert len(reader._files) < 4
    assert [curve.count for curve in reader.curves(JOB, None, None)] == [3] * 4


def test_of_very_many_points_evenly_many_are_given_and_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scalars_module, "CURVE_POINTS", 10)
    layout = Layout(tmp_path)
    write(layout, scalars("loss", [float(number) for number in range(95)]))
    (curve,) = ScalarReader(layout).curves(JOB, None, None)
    steps = [point.step for point in curve.points]
    assert curve.count == 95
    assert len(steps) <= 10
    assert steps[-1] == 94
    assert {after - before for before, after in pairwise(steps)} == {10}


def test_a_job_without_event_files_has_no_curves(tmp_path: Path):
    assert ScalarReader(Layout(tmp_path)).curves(JOB, None, None) == []
