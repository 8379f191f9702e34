"""Phases that user code declares by writing a line such as `TM_PHASE=checkpoint`.

A marker stands alone at the end of its line, so that a logger may put its prefix before it. It speaks for the replica
that wrote it until the next one; what a job has no limit for (`TM_PHASE=training`) ends the phase before. A marker that
somebody forges, say by printing data that holds one, changes how long that one job's silence is borne and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

PHASE_MARKER: Final = b"TM_PHASE="
_MARKER: Final = re.compile(rb"(?:^|[\s:])TM_PHASE=([a-z0-9][a-z0-9-]{0,62})[ \t]*(?=[\r\n]|\Z)")


def last_declared(text: bytes) -> str | None:
    """The phase that the last marker in these complete lines names; None where there is no marker."""
    if PHASE_MARKER not in text:
        return None
    found = None
    for found in _MARKER.finditer(text):  # noqa: B007  # the last one counts
        pass
    return found[1].decode() if found else None
