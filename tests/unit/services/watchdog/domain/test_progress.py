"""How far training came is read from the ways in which it is commonly printed."""

from __future__ import annotations

import pytest

from services.watchdog.domain.progress import Progress, seen_in


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (b"step 120 loss 2.3", Progress(0, 120)),
        (b"Step: 120/1000", Progress(0, 120)),
        (b"global_step=120", Progress(0, 120)),
        (b'{"epoch": 3, "step": 120}', Progress(3, 120)),
        (b"iteration      120/ 1000 | consumed samples", Progress(0, 120)),
        (b"iter [120/1000]", Progress(0, 120)),
        (b"Epoch 3:  45%|####5     | 450/1000 [01:15<01:31]", Progress(3, 450)),
        (b"saved /mnt/ckpt/checkpoint-500", Progress(0, 500)),
        (b"Epoch 3 begins", Progress(3, 0)),
        (b"step one of many; stepped aside", Progress()),
        (b"\xff\xfe\x00", Progress()),
        (b"", Progress()),
    ],
)
def test_common_ways(text: bytes, seen: Progress) -> None:
    assert seen_in(text, Progress()) == seen


def test_a_bar_that_begins_anew_in_the_next_epoch_is_further() -> None:
    seen = Progress()
    for text in (b"Epoch 1: | 999/1000 [", b"Epoch 2: | 3/1000 ["):
        assert seen_in(text, seen) > seen
        seen = seen_in(text, seen)
    assert seen == Progress(2, 3)


def test_progress_never_goes_back() -> None:
    assert seen_in(b"step 3", Progress(0, 10)) == Progress(0, 10)
    assert seen_in(b"Epoch 1 step 99", Progress(2, 10)) == Progress(2, 10)
    assert seen_in(b"Epoch 2", Progress(2, 10)) == Progress(2, 10)
