"""Claims: who holds a job's name, and which scheduler leads."""

from __future__ import annotations

from shared.events.payloads.base import Payload


class NameClaimed(Payload):
    """A user's job name belongs to this job."""

    TYPE = "trainmaster.name.claimed.v1"
    SUFFIX = "claimed"
    KIND = "name"
    AUTHOR = "submitter"

    name: str


class NameReleased(Payload):
    """The name is free again."""

    TYPE = "trainmaster.name.released.v1"
    SUFFIX = "released"
    KIND = "name"
    AUTHOR = "submitter"

    name: str


class LeaderElected(Payload):
    """A scheduler became the active one; the sequence of this event is its fence."""

    TYPE = "trainmaster.leader.elected.v1"
    SUFFIX = "elected"
    KIND = "epoch"
    AUTHOR = "scheduler"

    holder: str
