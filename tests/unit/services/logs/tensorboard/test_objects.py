"""Records in an object store: which are brought, when they are looked at again, and what is told instead."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from services.logs.tensorboard import objects as objects_module
from services.logs.tensorboard.mounts import MountPath
from services.logs.tensorboard.objects import LOOK_AGAIN, UNUSED, ObjectRecords
from shared.clock import ManualClock
from shared.errors import InvalidInputError, UnavailableError
from shared.events import ResolvedMount

MOUNT = ResolvedMount(mount_path="/mnt/data", type="storage", source="data", uri="s3://bucket/team")
RUNS = MountPath("/mnt/data/runs", MOUNT, "runs")


class Bucket:
    """Objects below one prefix."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.opened: list[tuple[str, str]] = []
        self.reads = 0
        self.is_away = False

    def open(self, name: str, prefix: str) -> Bucket:
        self.opened.append((name, prefix))
        return self

    def names(self, prefix: str) -> list[tuple[str, int]]:
        assert prefix == ""
        if self.is_away:
            raise UnavailableError("the object store does not answer")
        return [(name, len(content)) for name, content in self.objects.items()]

    def read(self, key: str, start: int, length: int) -> bytes:
        self.reads += 1
        return self.objects[key][start : start + length]

    def put(self, key: str, file: Path) -> None:
        raise NotImplementedError

    def delete(self, keys: Iterable[str]) -> None:
        raise NotImplementedError


@pytest.fixture
def bucket() -> Bucket:
    found = Bucket()
    found.objects = {"train/a.tfevents": b"abc", "model.pt": b"x" * 9, "../evil.tfevents": b"!"}
    return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def records(tmp_path: Path, bucket: Bucket, clock: ManualClock) -> ObjectRecords:
    return ObjectRecords(tmp_path / "records", bucket.open, clock)


def content(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def test_event_files_below_the_directory_are_brought_and_nothing_else(
    records: ObjectRecords, bucket: Bucket, tmp_path: Path
):
    assert content(records.bring("tb-1", RUNS)) == {"train/a.tfevents": b"abc"}
    assert bucket.opened == [("bucket", "team/runs")]
    assert content(tmp_path / "records") == {"tb-1/train/a.tfevents": b"abc"}


async def test_they_are_looked_at_again_after_a_while_and_only_what_has_grown_is_fetched(
    records: ObjectRecords, bucket: Bucket, clock: ManualClock
):
    records.bring("tb-1", RUNS)
    bucket.objects |= {"train/a.tfevents": b"abcdef", "b.tfevents": b"b"}
    assert content(records.bring("tb-1", RUNS)) == {"train/a.tfevents": b"abc"}
    await clock.advance(LOOK_AGAIN.total_seconds())
    assert content(records.bring("tb-1", RUNS)) == {"train/a.tfevents": b"abcdef", "b.tfevents": b"b"}
    assert bucket.reads == 3


async def test_a_store_that_is_away_later_takes_nothing_away(
    records: ObjectRecords, bucket: Bucket, clock: ManualClock
):
    bucket.is_away = True
    with pytest.raises(UnavailableError):
        records.bring("tb-1", RUNS)
    bucket.is_away = False
    records.bring("tb-1", RUNS)
    bucket.is_away = True
    await clock.advance(LOOK_AGAIN.total_seconds())
    assert content(records.bring("tb-1", RUNS)) == {"train/a.tfevents": b"abc"}


async def test_what_boards_do_not_show_any_more_is_removed(records: ObjectRecords, clock: ManualClock, tmp_path: Path):
    for board in ("tb-1", "tb-2"):
        records.bring(board, RUNS)
    records.forget_unused(["tb-1"])
    assert len(content(tmp_path / "records")) == 2
    await clock.advance((UNUSED + timedelta(seconds=1)).total_seconds())
    records.forget_unused(["tb-1"])
    assert content(tmp_path / "records") == {"tb-1/train/a.tfevents": b"abc"}


def test_none_or_too_many_are_told(records: ObjectRecords, bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(objects_module, "BYTES_MAX", 3)
    with pytest.raises(InvalidInputError, match="name a directory further down"):
        records.bring("tb-1", RUNS)
    bucket.objects = {"model.pt": b"x"}
    with pytest.raises(InvalidInputError, match="no event files below /mnt/data/runs"):
        records.bring("tb-1", RUNS)


def test_without_a_key_it_is_told_what_can_be_seen_instead(tmp_path: Path, clock: ManualClock):
    with pytest.raises(UnavailableError, match="without --dir"):
        ObjectRecords(tmp_path / "records", None, clock).bring("tb-1", RUNS)
