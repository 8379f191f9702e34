"""A phase is declared by a marker at the end of a line, and by nothing else."""

from __future__ import annotations

import pytest

from services.watchdog.domain.phases import last_declared


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        (b"TM_PHASE=checkpoint\n", "checkpoint"),
        (b"step 1\rTM_PHASE=setup\rstep 2\n", "setup"),
        (b"INFO:root:TM_PHASE=evaluation\r\n", "evaluation"),
        (b"2026-01-01 [rank0] TM_PHASE=checkpoint  \n", "checkpoint"),
        (b"TM_PHASE=checkpoint\nTM_PHASE=training\n", "training"),
    ],
)
def test_the_last_marker_counts(text: bytes, phase: str) -> None:
    assert last_declared(text) == phase


@pytest.mark.parametrize(
    "text",
    [b"", b"step 3\n", b"TM_PHASE=\n", b"TM_PHASE=Check Point\n", b"XTM_PHASE=setup\n", b"set TM_PHASE=setup first\n"],
)
def test_what_only_looks_like_a_marker_is_none(text: bytes) -> None:
    assert last_declared(text) is None
