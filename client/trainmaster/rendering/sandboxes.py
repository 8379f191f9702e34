"""What is held of failed attempts, in lines."""

from __future__ import annotations

from collections.abc import Iterable

from trainmaster.documents import Job
from trainmaster.rendering.moments import date_time
from trainmaster.sandboxes import KeptSandbox


def held(job: Job, kept: Iterable[KeptSandbox]) -> list[str]:
    """A line for each attempt of the job of which something is held."""
    shown = {attempt.number for attempt in job.attempts}
    return [_line(each) for each in kept if each.attempt in shown]


def _line(kept: KeptSandbox) -> str:
    where = f" at {kept.path} on {kept.machine}" if kept.path else ""
    return f"The sandbox of attempt {kept.attempt} is held until {date_time(kept.until)}{where}"
