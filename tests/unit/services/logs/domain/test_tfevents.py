"""Scalars from event files that are whole, growing, damaged, or full of other things."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.tensorboard import SummaryWriter

from services.logs.domain.crc32c import masked_crc
from services.logs.domain.tfevents import Batch, read_scalars
from services.logs.domain.tfrecords import missing_bytes
from tests.support.event_files import event, field, record, scalars, simple_value, tensor_value, varint, version


def points(batch: Batch) -> dict[str, list[tuple[int, float, float]]]:
    return {
        tag: list(zip(series.steps.tolist(), series.times_s.tolist(), series.values.tolist(), strict=True))
        for tag, series in batch.series.items()
    }


def values(batch: Batch, tag: str = "loss") -> list[float]:
    return batch.series[tag].values.tolist() if tag in batch.series else []


def test_the_checksum_is_the_one_that_tensorboard_writes():
    assert struct.pack("<I", masked_crc(struct.pack("<Q", 24))) == b"\xa3\x7fK\x22"


def test_simple_values_are_read_with_step_and_time():
    data = version() + event(5.5, 7, simple_value("loss", 0.25), simple_value("acc", 0.5))
    batch = read_scalars(data)
    assert points(batch) == {"loss": [(7, 5.5, 0.25)], "acc": [(7, 5.5, 0.5)]}
    assert batch.used_bytes == len(data)
    assert not batch.damaged


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_tensors_of_one_number_are_scalars(double: bool, packed: bool):
    data = event(1.0, 1, tensor_value("loss", 0.5, double=double, packed=packed))
    assert points(read_scalars(data)) == {"loss": [(1, 1.0, 0.5)]}


def test_negative_steps_and_no_numbers_are_kept():
    ((step, _, value),) = points(read_scalars(event(1.0, -3, simple_value("loss", math.nan))))["loss"]
    assert step == -3
    assert math.isnan(value)


def test_histograms_images_and_unknown_fields_are_passed_over():
    histogram = field(1, 2, b"weights") + field(5, 2, field(1, 1, struct.pack("<d", 1.0)))
    image = field(1, 2, b"picture") + field(4, 2, field(4, 2, b"png"))
    vector = field(1, 2, b"vector") + field(8, 2, field(1, 0, varint(1)) + field(4, 2, bytes(8)))
    text = field(1, 2, b"text") + field(8, 2, field(1, 0, varint(7)) + field(8, 2, b"words"))
    odd = field(1, 2, b"odd") + field(77, 5, bytes(4)) + field(2, 5, struct.pack("<f", 2.0))
    assert list(read_scalars(event(1.0, 1, histogram, image, vector, text, odd)).series) == ["odd"]


@given(st.integers(0, 400))
def test_a_file_that_is_being_written_is_read_up_to_the_last_whole_record_and_resumed(cut: int):
    data = version() + scalars("loss", [0.5, 0.25, 0.125])
    first = read_scalars(data[:cut])
    assert not first.damaged
    rest = read_scalars(data[first.used_bytes :])
    assert values(first) + values(rest) == [0.5, 0.25, 0.125]


def test_damage_ends_the_reading():
    data = scalars("loss", [0.5])
    broken = data + b"\x01" * 30 + data
    batch = read_scalars(broken)
    assert (values(batch), batch.used_bytes, batch.damaged) == ([0.5], len(data), True)


@pytest.mark.parametrize(
    "payload", [b"\x0a\xff", b"\x0b", b"\x2a\x02\x0a\x05", b"\xff" * 12, field(5, 2, field(1, 0, varint(3)))]
)
def test_a_message_that_cannot_be_read_is_damage(payload: bytes):
    assert read_scalars(record(payload)).damaged


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes):
    batch = read_scalars(data)
    assert 0 <= batch.used_bytes <= len(data)
    read_scalars(record(data))


def test_a_record_tells_how_much_of_it_is_missing():
    data = record(b"x" * 100)
    assert missing_bytes(data[:5]) == 7
    assert missing_bytes(data[:50]) == len(data) - 50
    assert missing_bytes(data) == 0


def test_a_message_that_was_changed_is_damage_by_its_checksum():
    data = scalars("loss", [0.5, 0.25, 0.125], first_step=1)
    size = len(data) // 3
    broken = bytearray(data)
    broken[size + 30] ^= 1
    batch = read_scalars(bytes(broken))
    assert (values(batch), batch.used_bytes, batch.damaged) == ([0.5], size, True)


def test_records_of_all_shapes_keep_their_order_within_a_tag():
    """What is read in columns and what is read field by field, between each other."""
    data, expected = version(), []
    for step in range(200):
        value = float(step)
        expected.append((step * 1000, 1.0 + step, value))
        data += event(
            1.0 + step,
            step * 1000,
            *[
                [simple_value("loss", value)],
                [simple_value("loss", value), simple_value("other", 1.0)],
                [tensor_value("loss", value)],
                [tensor_value("loss", value, double=True, packed=True)],
            ][step % 4],
        )
    batch = read_scalars(data)
    assert points(batch)["loss"] == expected
    assert len(values(batch, "other")) == 50


def test_the_files_of_the_real_writers_are_read(tmp_path: Path):
    """torch writes simple values, and tensors where it is asked for the new style."""
    writer = SummaryWriter(str(tmp_path))
    for step in range(50):
        writer.add_scalar("old/style", step / 2, step)
        writer.add_scalar("new/style", step / 4, step, new_style=True)
    writer.add_histogram("weights", torch.arange(10.0), 1)
    writer.add_text("words", "<b>hello</b>", 1)
    writer.close()
    (file,) = tmp_path.iterdir()
    batch = read_scalars(file.read_bytes())
    assert not batch.damaged
    assert {tag: series.values.tolist() for tag, series in batch.series.items()} == {
        "old/style": [step / 2 for step in range(50)],
        "new/style": [step / 4 for step in range(50)],
    }
    assert batch.series["old/style"].steps.tolist() == list(range(50))
