"""Bytes of the write-ahead log become frames without a byte lost or doubled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.extents import Extent, cuts_between, plan_frames
from services.logs.domain.frames import FRAME_BYTES

lengths = st.lists(st.integers(1, FRAME_BYTES), min_size=1, max_size=12)


def extents_of(sizes: list[int], start: int = 0) -> list[Extent[int]]:
    extents, offset = [], start
    for number, length in enumerate(sizes):
        extents.append(Extent(offset, length, number, 1 + number // 3, 0, 100 - number, 100 + number))
        offset += length
    return extents


@given(lengths, st.integers(0, 1000), st.booleans())
def test_frames_cover_the_bytes_in_order(sizes: list[int], skip: int, everything: bool):
    extents = extents_of(sizes, 500)
    start = min(500 + skip, extents[-1].stop)
    at = start
    plans = plan_frames(extents, start, everything=everything)
    for plan in plans:
        length = 0
        for cut in plan.cuts:
            assert cut.extent.offset + cut.skip == at
            at, length = at + cut.length, length + cut.length
        assert length == FRAME_BYTES or (everything and plan is plans[-1] and length <= FRAME_BYTES)
        assert (plan.first_ms, plan.last_ms) == (
            min(cut.extent.first_ms for cut in plan.cuts),
            max(cut.extent.last_ms for cut in plan.cuts),
        )
    rest = extents[-1].stop - at
    assert rest == 0 if everything else rest < FRAME_BYTES


@given(lengths, st.data())
def test_the_cuts_of_a_range_are_the_range(sizes: list[int], data: st.DataObject):
    extents = extents_of(sizes)
    start = data.draw(st.integers(0, extents[-1].stop))
    stop = data.draw(st.integers(start, extents[-1].stop))
    cuts = list(cuts_between(extents, start, stop))
    assert sum(cut.length for cut in cuts) == stop - start
    assert all(0 < cut.length <= cut.extent.length - cut.skip for cut in cuts)


def test_no_bytes_make_no_frames():
    assert plan_frames([], 7, everything=True) == []
