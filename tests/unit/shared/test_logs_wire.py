"""Chunks and announcements survive the wire; what is neither is refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.logs_wire import (
    LOG_PARTITIONS,
    Chunk,
    FileRef,
    Kept,
    MalformedChunkError,
    ReplicaRef,
    chunk_headers,
    chunk_subject,
    decode_chunk,
    decode_kept,
    encode_kept,
    is_safe_path,
    kept_subject,
    partition_of,
)

REPLICA = ReplicaRef("tj-aaaabbbbcccc", 1, "worker", 0)
SUBJECT = "tm.log.3.tj-aaaabbbbcccc.1.worker.0"

names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
replicas = st.builds(ReplicaRef, names, st.integers(1, 999), names, st.integers(0, 9999))
paths = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40).filter(is_safe_path)
files = st.one_of(
    st.builds(FileRef, replicas),
    st.builds(FileRef, replicas, st.just("tb"), paths),
)
offsets = st.integers(0, 2**50)


@given(
    st.builds(
        Chunk,
        file=files,
        offset=offsets,
        data=st.binary(max_size=50),
        generation=st.integers(1, 50),
        times=st.lists(st.tuples(offsets, offsets), max_size=4).map(tuple),
        node=names,
        end=st.none() | offsets,
        phase=st.none() | st.just("") | names,
        checkpoint=st.none() | paths,
    ),
)
def test_a_chunk_is_read_as_it_was_written(chunk: Chunk):
    headers = chunk_headers(chunk)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert decode_chunk(chunk_subject(chunk.file.replica), headers, chunk.data) == chunk


@given(st.builds(Kept, files, offsets, st.booleans(), st.integers(1, 9), st.booleans()))
def test_an_announcement_is_read_as_it_was_written(kept: Kept):
    assert decode_kept(kept_subject(kept.file.replica), encode_kept(kept)) == kept


def test_a_file_name_that_is_no_utf8_survives():
    file = FileRef(REPLICA, "tb", "tfevents-\udcff\udc80")
    chunk = Chunk(file, 0, b"x")
    assert decode_chunk(SUBJECT, chunk_headers(chunk), b"x").file == file
    assert decode_kept(kept_subject(REPLICA), encode_kept(Kept(file, 1))).file == file


def test_a_job_always_has_the_same_partition_and_all_partitions_are_used():
    partitions = {partition_of(f"tj-{n:012d}") for n in range(500)}
    assert partitions == set(range(LOG_PARTITIONS))


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/./b", "a\0b", "a/", "x" * 300, "/".join(["d" * 200] * 6)],
)
def test_a_path_that_leaves_its_directory_or_cannot_be_made_is_refused(path: str):
    assert not is_safe_path(path)


@pytest.mark.parametrize(
    ("subject", "headers", "complaint"),
    [
        ("tm.log.3.tj-a.1.worker", {}, "names no replica"),
        ("tm.log.3.tj-a.0.worker.0", {"Tm-Kind": "log", "Tm-Offset": "0"}, "names no replica"),
        ("tm.log.3.TJ.1.worker.0", {}, "names no replica"),
        (SUBJECT, None, "Tm-Kind is missing"),
        (SUBJECT, {"Tm-Kind": "log"}, "Tm-Offset is missing"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "-1"}, "'-1' is no whole number"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "٣"}, "is no whole number"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "9" * 30}, "is no whole number"),
        (SUBJECT, {"Tm-Kind": "audio", "Tm-Offset": "0"}, "kind 'audio'"),
        (SUBJECT, {"Tm-Kind": "tb", "Tm-Offset": "0"}, "kind 'tb' with path ''"),
        (SUBJECT, {"Tm-Kind": "tb", "Tm-Offset": "0", "Tm-Path": "%2e%2e/x"}, "kind 'tb' with path '../x'"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "0", "Tm-Generation": "0"}, "at least 1"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "0", "Tm-Times": "5"}, "is no whole number"),
        (SUBJECT, {"Tm-Kind": "log", "Tm-Offset": "0", "Tm-End": "x"}, "'x' is no whole number"),
    ],
)
def test_what_is_no_chunk_is_refused_with_the_reason(subject: str, headers: dict[str, str] | None, complaint: str):
    with pytest.raises(MalformedChunkError, match=complaint):
        decode_chunk(subject, headers, b"")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":"log"}', b'{"kind":"log","kept":"x","ended":false}', b"\xff"])
def test_what_is_no_announcement_is_refused(body: bytes):
    with pytest.raises(MalformedChunkError):
        decode_kept(kept_subject(REPLICA), body)
