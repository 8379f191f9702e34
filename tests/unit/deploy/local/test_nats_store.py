"""States of consumers that a loss of power cut."""

from __future__ import annotations

import pytest

from deploy.local.nats_store import is_torn, mend_store

EMPTY = bytes([22, 2, 0, 0, 0, 0, 0, 0])
PENDING = bytes([22, 2, 3, 7, 5, 9, 2, 0x80, 0x80, 1, 1, 1, 0x81, 1, 2, 1, 3, 1, 8, 2])


@pytest.mark.parametrize("whole", [b"", EMPTY, PENDING, PENDING + b"more", bytes([22, 1, 9]), bytes([22, 3])])
def test_whole_states_and_those_of_other_versions_are_left_alone(whole):
    assert not is_torn(whole)


@pytest.mark.parametrize("length", range(1, len(PENDING)))
def test_a_state_without_its_end_is_torn_wherever_it_was_cut(length):
    assert is_torn(PENDING[:length])


@pytest.mark.parametrize("torn", [bytes(8), b"\x17" + EMPTY[1:], EMPTY[:1] + bytes(7), EMPTY[:-1]])
def test_zeros_and_other_bytes_are_torn(torn):
    assert is_torn(torn)


def test_only_torn_states_are_removed(tmp_path):
    consumers = tmp_path / "jetstream" / "$G" / "streams" / "JOBS" / "obs"
    for name, content in {"well": PENDING, "torn": PENDING[:5]}.items():
        (consumers / name).mkdir(parents=True)
        (consumers / name / "o.dat").write_bytes(content)
        (consumers / name / "meta.inf").write_text("{}")
    assert mend_store(tmp_path) == [consumers / "torn" / "o.dat"]
    assert sorted(path.name for path in consumers.rglob("*.*")) == ["meta.inf", "meta.inf", "o.dat"]
    assert mend_store(tmp_path / "nowhere") == []
