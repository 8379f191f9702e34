"""What every payload says of its kind, and the payload of a kind that this version does not know."""

from __future__ import annotations

from typing import ClassVar, Literal

from shared.events.facts import Fact

Author = Literal["submitter", "scheduler", "watchdog", "diagnoser", "logs"]
Kind = Literal["state", "obs", "name", "epoch", "node", "usage", "platform", "check"]


class Payload(Fact):
    """Base of the payloads; the class variables describe the kind of event."""

    TYPE: ClassVar[str]
    SUFFIX: ClassVar[str]
    KIND: ClassVar[Kind]
    AUTHOR: ClassVar[Author]

    @property
    def part(self) -> str:
        """What tells this event from others of its kind in the same attempt; empty where there can be one only."""
        return ""


class Unknown(Payload):
    """Payload of an event type that this version does not know."""

    TYPE = ""
    SUFFIX = ""
    KIND = "obs"
    AUTHOR = "submitter"
