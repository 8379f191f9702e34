"""What the diagnoser does with a request: nothing yet, and it says so where an operator looks."""

from __future__ import annotations

from typing import NoReturn

from shared.bus.deadletters import UnhandleableError
from shared.jobs import Recorded


async def on_diagnosis_requested(recorded: Recorded) -> NoReturn:
    """Refuse: submission lets no job through that asks for a diagnosis, so this request is a mistake of some part."""
    raise UnhandleableError(
        "diagnosis-not-available",
        f"job {recorded.event.subject} asks for a diagnosis, which this version cannot do; it should have been refused",
    )
