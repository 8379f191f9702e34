"""Samples as lines."""

from __future__ import annotations

import pytest

from shared.resource_samples import GpuSample, Sample, decode_sample, encode_sample


@pytest.mark.parametrize(
    "sample",
    [Sample(1, 0.5, 100, 2), Sample(2, 0.0, 0, 0, (GpuSample("GPU-1", 93.0, 5), GpuSample("GPU-2", None, None)))],
)
def test_a_sample_survives_its_line(sample: Sample):
    line = encode_sample(sample)
    assert line.endswith(b"\n")
    assert decode_sample(line) == sample


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"{}", b'{"t":1,"c":"x","m":1,"p":1}', b'{"t":1,"c":1,"m":1,"p":1,"g":[[]]}']
)
def test_what_is_no_sample_is_none(line: bytes):
    assert decode_sample(line) is None
