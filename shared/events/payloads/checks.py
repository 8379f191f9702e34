"""Checks: diagnoses of nodes outside of any job, asked for by an admin or by the platform's own schedule.

What a check finds on a node is `trainmaster.node.diagnosed.v1`, as with a job's diagnosis; these tell of the check.
"""

from __future__ import annotations

from typing import Literal

from shared.events.facts import Sentence
from shared.events.payloads.base import Payload


class CheckRequested(Payload):
    """Somebody wants these nodes diagnosed; `by` is an admin's name, or `schedule`.

    Where `idle_only` says so, the check ends as soon as a job gets one of the nodes; else it begins anew without that
    node. `instance_type` says by whose profile, `deep` at which level NVIDIA's own tests are made. `budget_s` and
    `most_s` are how long it will take, as it was told before it began.
    """

    TYPE = "trainmaster.check.requested.v1"
    SUFFIX = "requested"
    KIND = "check"
    AUTHOR = "diagnoser"

    check: str
    cluster: str
    nodes: tuple[str, ...]
    by: str
    inject: tuple[str, ...] = ()
    thorough: bool = True
    idle_only: bool = False
    instance_type: str = ""
    deep: int = 0
    budget_s: float = 0.0
    most_s: float = 0.0


class CheckStarted(Payload):
    """An instance of the diagnoser runs the check; there is another such event where it had to begin anew.

    Nodes `in_use` are looked at and not put under load.
    """

    TYPE = "trainmaster.check.started.v1"
    SUFFIX = "started"
    KIND = "check"
    AUTHOR = "diagnoser"

    check: str
    run: str
    in_use: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """One a run."""
        return self.run


class CheckEnded(Payload):
    """The check is over: all is on record, it failed, or it made room for a job."""

    TYPE = "trainmaster.check.ended.v1"
    SUFFIX = "ended"
    KIND = "check"
    AUTHOR = "diagnoser"

    check: str
    outcome: Literal["finished", "failed", "cancelled"]
    message: Sentence = ""
