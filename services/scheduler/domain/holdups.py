"""Why replicas of a gang do not run yet, as one sentence: those with the same reason together, the most frequent first.

A gang of a thousand may have one reason a thousand times, or many; whoever asks gets the first few of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

REASONS_SHOWN: Final = 3
REPLICAS_SHOWN: Final = 3
_REASON_CHARS: Final = 500


def holdups_sentence(reasons: Mapping[str, str]) -> str:
    """What keeps the replicas (`<role>-<index>`) from running; empty where nothing is known to."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for replica, reason in reasons.items():
        by_reason[reason].append(replica)
    frequent = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    told = [f"{_names(replicas)}: {reason[:_REASON_CHARS]}" for reason, replicas in frequent[:REASONS_SHOWN]]
    return "; ".join([*told, *_more(len(frequent) - REASONS_SHOWN, "reason")])


def _names(replicas: list[str]) -> str:
    first = sorted(replicas, key=_place)[:REPLICAS_SHOWN]
    return ", ".join([*first, *_more(len(replicas) - REPLICAS_SHOWN, "replica")])


def _more(count: int, of: str) -> list[str]:
    return [f"and {count} more {of}{'s' if count > 1 else ''}"] if count > 0 else []


def _place(replica: str) -> tuple[str, int]:
    role, _, index = replica.rpartition("-")
    return role, int(index)
