from __future__ import annotations

from typing import Any

import pytest

from trainmaster.decoding import Fields
from trainmaster.documents import Progress
from trainmaster.rendering.progress import in_short, told


def progress(**given: Any) -> Progress:
    return Progress.of(Fields.of(given))


def test_everything_that_is_known_is_told() -> None:
    found = progress(
        step=450,
        totalSteps=1000,
        epoch=1.25,
        totalEpochs=3,
        loss=0.1234567,
        stepsPerSecond=10.04,
        fraction=0.45,
        estimatedEnd="2026-01-01T00:22:13.000Z",
    )
    words = told(found)
    assert words.startswith("45 %, step 450 of 1000, epoch 1.25 of 3, loss 0.123457, 10 steps/s, ends about ")


def test_no_end_is_foretold_of_what_has_ended() -> None:
    found = progress(fraction=0.45, estimatedEnd="2026-01-01T00:22:13.000Z")
    assert told(found, ended=True) == "45 %"


def test_steps_within_an_epoch_are_told_as_such() -> None:
    assert told(progress(step=3, totalSteps=10, withinEpoch=True, epoch=2)) == "step 3 of 10 of the epoch, epoch 2"


@pytest.mark.parametrize(
    ("given", "short"),
    [({"fraction": 0.456, "step": 3}, "46 %"), ({"step": 3}, "step 3"), ({"epoch": 2.0}, "epoch 2")],
)
def test_lists_have_a_few_characters(given: dict[str, Any], short: str) -> None:
    assert in_short(progress(**given)) == short
    assert in_short(None) == ""
