"""A share of a bucket as a directory and back, against a real S3 API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.sources.mirror import Mirror, MirrorError, Progress, plan_of
from services.scheduler.sources.object_store import Bucket, StoreError
from tests.support.s3 import S3, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("moto")) as running:
        yield running


@pytest.fixture
def s3(server: S3) -> S3:
    for key in server.contents():
        server.client.delete_object(Bucket=server.bucket, Key=key)
    return server


def bucket(s3: S3, key: str = "set") -> Bucket:
    return Bucket(s3.options, s3.bucket, key)


async def laid(s3: S3, directory: Path, key: str = "set", *, read_only: bool = False) -> Mirror:
    mirror, progress = Mirror(directory, 0), Progress("synchronising")
    plan = plan_of(await bucket(s3, key).list())
    progress.total_bytes = plan.size_bytes
    await mirror.lay(bucket(s3, key), plan, f"s3://{s3.bucket}/{key}", progress, read_only=read_only)
    assert progress.done_bytes == progress.total_bytes
    return mirror


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def test_objects_below_the_key_are_files_and_no_others(s3: S3, tmp_path: Path):
    s3.put(set__a="1", set__deep__er__b="2", settings="no", other__c="no")
    s3.put_key("set/größe %20+#?.txt", b"3")
    mirror = await laid(s3, tmp_path)
    assert files(mirror.directory) == {"a": b"1", "deep/er/b": b"2", "größe %20+#?.txt": b"3"}
    assert mirror.is_laid
    assert mirror.uri == f"s3://{s3.bucket}/set"


async def test_a_whole_bucket_and_an_empty_place_are_laid(s3: S3, tmp_path: Path):
    s3.put(a="1", set__b="2")
    assert files((await laid(s3, tmp_path / "whole", "")).directory) == {"a": b"1", "set/b": b"2"}
    assert files((await laid(s3, tmp_path / "empty", "nothing")).directory) == {}


async def test_what_consoles_make_for_folders_are_folders(s3: S3, tmp_path: Path):
    s3.put_key("set/filled/", b"")
    s3.put_key("set/filled/a", b"1")
    s3.put_key("set/empty/", b"")
    mirror = await laid(s3, tmp_path)
    assert files(mirror.directory) == {"filled/a": b"1"}
    assert (mirror.directory / "empty").is_dir()


@pytest.mark.parametrize("key", ["set/../up", "set/a//b", "set/./x"])
async def test_keys_that_are_no_paths_are_refused(s3: S3, tmp_path: Path, key: str):
    s3.put_key(key, b"1")
    with pytest.raises((StoreError, MirrorError)):
        await laid(s3, tmp_path / "gang")
    assert not list(tmp_path.rglob("up"))


async def test_an_object_with_others_below_it_is_refused(s3: S3, tmp_path: Path):
    s3.put(set__a="1", set__a__b="2")
    with pytest.raises(MirrorError, match="'a' is an object"):
        await laid(s3, tmp_path)


async def test_an_interrupted_start_brings_only_what_is_missing(s3: S3, tmp_path: Path):
    s3.put(set__a="1" * 100, set__b="2" * 100, set__stale="x")
    await laid(s3, tmp_path)
    (tmp_path / "0.json").unlink()  # as if it had been killed before the end
    (tmp_path / "0" / "b").write_text("half")
    inode = (tmp_path / "0" / "a").stat().st_ino
    s3.client.delete_object(Bucket=s3.bucket, Key="set/stale")
    mirror = await laid(s3, tmp_path)
    assert files(mirror.directory) == {"a": b"1" * 100, "b": b"2" * 100}
    assert (mirror.directory / "a").stat().st_ino == inode


async def test_what_was_written_is_saved_and_nothing_else_is_touched(s3: S3, tmp_path: Path):
    s3.put(set__same="1", set__changed="2", set__removed="3")
    mirror = await laid(s3, tmp_path)
    (mirror.directory / "changed").write_text("two")
    (mirror.directory / "removed").unlink()
    (mirror.directory / "new").mkdir()
    (mirror.directory / "new" / "größe").write_bytes(b"4" * 12_000_000)
    (mirror.directory / "link").symlink_to("/etc/passwd")
    os.mkfifo(mirror.directory / "pipe")
    s3.put(set__same="somebody else wrote this meanwhile")
    assert mirror.is_unsaved
    progress = Progress("saving")
    await mirror.save(bucket(s3), progress)
    assert not mirror.is_unsaved
    assert progress.done_bytes == progress.total_bytes == 12_000_003
    assert s3.contents() == {
        "set/same": b"somebody else wrote this meanwhile",
        "set/changed": b"two",
        "set/removed": b"3",
        "set/new/größe": b"4" * 12_000_000,
    }


async def test_a_change_that_keeps_size_and_time_is_saved_all_the_same(s3: S3, tmp_path: Path):
    s3.put(set__a="1")
    mirror = await laid(s3, tmp_path)
    path = mirror.directory / "a"
    before = path.stat()
    await asyncio.sleep(0.02)  # the kernel's clock of inodes ticks every few milliseconds
    path.write_text("2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await mirror.save(bucket(s3), Progress("saving"))
    assert s3.contents() == {"set/a": b"2"}


async def test_a_read_only_mount_is_never_saved(s3: S3, tmp_path: Path):
    s3.put(set__a="1")
    mirror = await laid(s3, tmp_path, read_only=True)
    (mirror.directory / "b").write_text("2")
    assert not mirror.is_unsaved


async def test_a_store_in_trouble_leaves_everything_to_be_done_again(s3: S3, tmp_path: Path):
    s3.put(set__a="1")
    mirror = await laid(s3, tmp_path)
    (mirror.directory / "b").write_text("2")
    with pytest.raises(StoreError, match="1 of 1 files could not be saved; b"):
        await mirror.save(Bucket(s3.options, "no-such-bucket", "set"), Progress("saving"))
    assert mirror.is_unsaved
    await mirror.save(bucket(s3), Progress("saving"))
    assert s3.contents() == {"set/a": b"1", "set/b": b"2"}
