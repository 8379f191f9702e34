"""What the first steps of an attempt say of its ranks, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainmaster.documents import BurnIn

MOST_SUSPECTS: Final = 10
_SOURCES: Final = {"hook": "the hook", "log": "lines of the logs", "scalars": "scalars"}


def burn_in_lines(burn_in: BurnIn) -> Iterator[str]:
    """A line, and one more for each suspect."""
    yield f"first steps: {burn_in_sentence(burn_in)}"
    for each in burn_in.suspects[:MOST_SUSPECTS]:
        yield f"  {each.node}, suspect: {each.why}"
    if len(burn_in.suspects) > MOST_SUSPECTS:
        yield f"  and {len(burn_in.suspects) - MOST_SUSPECTS} more suspect ranks"


def burn_in_sentence(burn_in: BurnIn) -> str:
    """How many ranks were compared, by what, and who stands out."""
    by = _SOURCES.get(burn_in.source, burn_in.source)
    compared = f"{burn_in.ranks} ranks up to step {burn_in.last_step}, by {by}"
    if burn_in.message:
        return f"{compared}: {burn_in.message}"
    names = ", ".join(f"rank {each.rank}" for each in burn_in.suspects[:MOST_SUSPECTS])
    return f"{compared}: {f'{names} held the others up' if names else 'none stands out'}"
