"""The write-ahead log gives back what was acknowledged, whatever happened to the end of its last file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.logs.adapters import wal as wal_module
from services.logs.adapters.wal import Record, Wal, decode_meta, encode_meta
from shared.errors import UnavailableError
from tests.support.scratch import scratch

headers = st.dictionaries(st.sampled_from(["Tm-Kind", "Tm-Offset"]), st.sampled_from(["", "log", "a: b", "1:2,3:4"]))
records = st.builds(Record, st.sampled_from(["tm.log.1.tj-a", "x"]), headers, st.binary(max_size=80))
batches = st.lists(st.lists(records, min_size=1, max_size=4), min_size=1, max_size=5)


def replayed(directory: Path) -> list[Record]:
    wal = Wal(directory)
    found = [record for record, _ in wal.replay()]
    wal.close()
    return found


@given(records)
def test_subject_and_headers_are_read_as_they_were_written(record: Record):
    assert decode_meta(encode_meta(record), record.body) == record


@given(batches)
def test_everything_appended_is_replayed_in_order_over_several_starts(given_batches: list[list[Record]]):
    with scratch() as directory:
        expected = []
        for batch in given_batches:
            wal = Wal(directory)
            spots = wal.append(batch)
            assert [spot.file.read(spot.at, len(r.body)) for spot, r in zip(spots, batch, strict=True)] == [
                record.body for record in batch
            ]
            expected += batch
            wal.close()
        assert replayed(directory) == expected


@given(batches, st.data())
def test_a_torn_end_loses_only_what_is_torn(given_batches: list[list[Record]], data: st.DataObject):
    """The process is killed in the middle of an append: some bytes of the last records are there, or garbage."""
    with scratch() as directory:
        wal = Wal(directory)
        for batch in given_batches[:-1]:
            wal.append(batch)
        wal.append([Record("before")])
        acknowledged = (directory / "00000001.wal").stat().st_size
        wal.append(given_batches[-1])
        wal.close()
        path = directory / "00000001.wal"
        cut = data.draw(st.integers(acknowledged, path.stat().st_size))
        os.truncate(path, cut)
        garbage = data.draw(st.binary(max_size=40))
        with path.open("ab") as file:
            file.write(garbage)
        whole = [record for batch in given_batches[:-1] for record in batch] + [Record("before")]
        found = replayed(directory)
        assert found[: len(whole)] == whole
        assert found[len(whole) :] == given_batches[-1][: len(found) - len(whole)]


@given(st.data())
def test_a_flipped_bit_never_gives_a_wrong_record(data: st.DataObject):
    with scratch() as directory:
        batch = [Record("one", {"A": "b"}, b"body"), Record("two", {}, b"more")]
        wal = Wal(directory)
        wal.append(batch)
        wal.close()
        path = directory / "00000001.wal"
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        assert replayed(directory) in ([], batch[:1])


def test_a_file_that_is_long_enough_is_not_written_to_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wal_module, "FILE_BYTES", 100)
    wal = Wal(tmp_path)
    (first,) = wal.append([Record("a", {}, bytes(200))])
    (second,) = wal.append([Record("b")])
    assert wal.old == [first.file]
    assert second.file is not first.file
    wal.close()


def test_many_small_records_end_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wal_module, "FILE_RECORDS", 3)
    wal = Wal(tmp_path)
    for _ in range(7):
        wal.append([Record("a")])
    assert len(wal.old) == 2
    wal.close()


def test_a_removed_file_can_be_read_by_those_who_hold_it(tmp_path: Path):
    wal = Wal(tmp_path)
    (spot,) = wal.append([Record("a", {}, b"body")])
    wal.rotate()
    wal.remove([spot.file])
    assert list(tmp_path.glob("*.wal")) == []
    assert spot.file.read(spot.at, 4) == b"body"
    assert wal.old == []
    wal.close()
    assert replayed(tmp_path) == []


def test_an_append_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wal = Wal(tmp_path)
    wal.append([Record("first")])
    monkeypatch.setattr(os, "fdatasync", _fails)
    with pytest.raises(OSError, match="disk"):
        wal.append([Record("lost")])
    monkeypatch.undo()
    wal.append([Record("second")])
    wal.close()
    assert [record.subject for record in replayed(tmp_path)] == ["first", "second"]


def _fails(_fd: int) -> None:
    raise OSError("disk")


def test_two_processes_cannot_have_the_same_files(tmp_path: Path):
    wal = Wal(tmp_path)
    with pytest.raises(UnavailableError, match="another process"):
        Wal(tmp_path)
    wal.close()
    Wal(tmp_path).close()
