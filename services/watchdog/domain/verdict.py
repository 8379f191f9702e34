"""What a condition of a retry says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.events import ReplicaRef


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rule that asks for another attempt, or None; `why` in words that follow how the attempt ended."""

    why: str
    rule: str | None = None
    replica: ReplicaRef | None = None
    line: str | None = None
    charged: Literal["job", "platform"] = "job"
