"""What concerns the platform rather than one job."""

from __future__ import annotations

from typing import Literal

from shared.events.facts import Sentence, Time
from shared.events.payloads.base import Payload

PlaceKind = Literal["node", "leaf", "storage", "image"]


class OutageSuspected(Payload):
    """The same rule was found in several jobs that share a place, within minutes: the place is to blame, not the jobs.

    `jobs` are those known when it was noticed, the first one first; `since` is when the first of them was hit.
    """

    TYPE = "trainmaster.outage.suspected.v1"
    SUFFIX = "outage.suspected"
    KIND = "platform"
    AUTHOR = "watchdog"

    rule: str
    place_kind: PlaceKind
    place: str
    jobs: tuple[str, ...]
    line: Sentence = ""
    since: Time
    at: Time
