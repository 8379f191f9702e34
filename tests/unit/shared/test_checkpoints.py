"""Which checkpoint is further, by its path."""

from __future__ import annotations

from shared.checkpoints import furthest, numbers_in


def test_numbers_of_a_path_are_compared_as_numbers_in_their_order() -> None:
    assert numbers_in("epoch=3-step=1200.ckpt") == (3, 1200)
    paths = ["checkpoint-900/model.pt", "checkpoint-1000/model.pt", "checkpoint-1000/rng_state_3.pth", "last.pt"]
    assert furthest(paths) == "checkpoint-1000/rng_state_3.pth"


def test_of_files_without_numbers_any_says_that_something_was_saved() -> None:
    assert furthest(["config.json", "last.pt"]) == "last.pt"
    assert furthest([]) is None
