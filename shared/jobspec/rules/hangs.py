"""Rules about hang detection: a silence that can be told from a pause, and a retry that can ever come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import TypeAdapter

from shared.documents.fields import PositiveDuration
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import PHASES_MAX
from shared.units import format_duration, parse_duration_s

SILENCE_LEAST_S: Final = 1.0

_SILENCE: Final = ("spec", "hangDetection", "silence")
_EXIT_SILENCE: Final = ("spec", "hangDetection", "exitSilence")
_PHASES: Final = ("spec", "hangDetection", "phases")
_ON_HANG: Final = ("spec", "retry", "on", "hang")
_DURATION: Final = TypeAdapter(PositiveDuration)


def silence_is_long_enough(draft: Draft) -> Iterator[Violation]:
    """Output takes part of a second to reach the watchdog; a shorter silence means nothing."""
    for place in (_SILENCE, _EXIT_SILENCE, *((*_PHASES, phase) for phase in draft.mapping(*_PHASES))):
        silence = draft.get(_DURATION, *place)
        if silence is not None and parse_duration_s(silence) < SILENCE_LEAST_S:
            least = format_duration(SILENCE_LEAST_S)
            yield Violation(
                pointer(place), "out-of-range", f"{silence} is too short; give at least {least}, such as 30m"
            )


def phases_are_few(draft: Draft) -> Iterator[Violation]:
    """A job tells few phases apart."""
    count = len(draft.mapping(*_PHASES))
    if count > PHASES_MAX:
        yield Violation(pointer(_PHASES), "too-many", f"phases has {count} entries; give at most {PHASES_MAX}")


def a_retry_on_hang_can_happen(draft: Draft) -> Iterator[Violation]:
    """Only a job whose hangs are looked for is retried after one."""
    detects = draft.raw("spec", "hangDetection", "enabled") is True
    if draft.raw(*_ON_HANG) is True and not detects:
        yield Violation(
            pointer(_ON_HANG),
            "hang-detection-off",
            "a hang is never noticed here; give hangDetection: {enabled: true}, or leave hang out",
        )
