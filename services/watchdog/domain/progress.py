"""How far training has come, as far as its log tells: the last epoch and step that were printed.

Training loops print where they are in many ways: `step 120`, `iteration 120/1000`, `global_step=120`, `Epoch 3`, a
bar's `120/1000 [`, `checkpoint-500`. At the end of each chunk the last of these counts. It is a hint and no more: it
says whether a later attempt came further than an earlier one, and whether a job went on after an error that it printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LOOKED_AT_BYTES: Final = 512

# Words are found by their text, and numbers read only there: this is done for every chunk of every log.
_STEP_WORDS: Final = (b"step", b"iter", b"batch", b"checkpoint")
_NUMBER: Final = re.compile(rb"[a-z]{4,10}[\"']?[ ]{0,3}[:=#\[_-]?[ ]{0,12}(\d{1,15})\b")
_BAR: Final = re.compile(rb"(\d{1,15})/\d{1,15}\Z")
_BAR_MAX_BYTES: Final = 31


@dataclass(frozen=True, slots=True, order=True)
class Progress:
    """Epoch and step; zero is what was never printed."""

    epoch: int = 0
    step: int = 0

    def __str__(self) -> str:
        parts = [f"epoch {self.epoch}"] if self.epoch else []
        return ", ".join([*parts, f"step {self.step}"]) if self.step or not parts else parts[0]


def seen_in(text: bytes, before: Progress) -> Progress:
    """The furthest that has been seen, after more text."""
    window = text[-LOOKED_AT_BYTES:].lower()
    epoch, step = _number_after(window, b"epoch"), _last_step(window)
    in_epoch = before.epoch if epoch is None else epoch
    in_step = before.step if step is None and in_epoch == before.epoch else step or 0
    return max(before, Progress(in_epoch, in_step))


def _last_step(window: bytes) -> int | None:
    """The number behind the last word for a step, else that of a bar."""
    steps = [step for word in _STEP_WORDS if (step := _number_after(window, word)) is not None]
    return max(steps) if steps else _bar(window)


def _number_after(window: bytes, word: bytes) -> int | None:
    at = window.rfind(word)
    match = _NUMBER.match(window, at) if at >= 0 else None
    return int(match[1]) if match else None


def _bar(window: bytes) -> int | None:
    at = window.rfind(b" [")
    match = _BAR.search(window, max(0, at - _BAR_MAX_BYTES), at) if at > 0 else None
    return int(match[1]) if match else None
