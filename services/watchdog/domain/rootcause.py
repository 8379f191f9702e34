"""The root cause of the end of an attempt: of all that its replicas printed, and of what the engine knows.

In this order:

1. Facts that decide: the platform lost or took the machines, memory ran out, the command does not exist (`facts`).
2. The first original error over all replicas, by time corrected for the clocks of their nodes. Lines of class `cascade`
   and `info` are no originals, errors that were survived are not (`found`), and what a replica says of the signal that
   we stopped it with is not. Of one replica its first error counts. What may tell of another replica (`secondHand`)
   gives way to an error that does not and comes within `LAST_WORDS_MS`: survivors are given that long to speak, and a
   clock may be wrong by as much. Of errors of several replicas within `TOGETHER_MS` order means nothing, as clocks and
   ways differ; there the more certain class wins, then the replica that torchrun names.
3. Facts that say only that a process died.
4. Where survivors alone have spoken, that: it is not known what they survived.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from services.watchdog.domain import torchrun
from services.watchdog.domain.facts import Fact, fact_of
from services.watchdog.domain.found import Found
from services.watchdog.domain.rules import FailureClass, Rule
from shared.events import Cause, ReplicaRef
from shared.jobs import Attempt, Replica

TOGETHER_MS: Final = 1000
LAST_WORDS_MS: Final = 15_000
ONLY_SURVIVORS: Final = "fact/only-survivors"

_NO_ORIGINAL: Final = (FailureClass.CASCADE, FailureClass.INFO)
_CERTAINTY: Final = (FailureClass.NODE, FailureClass.USER, FailureClass.INFRASTRUCTURE, FailureClass.AMBIGUOUS)
# What a launcher says when it gets the signal with which the platform ends replicas.
_ABOUT_OUR_SIGNAL: Final = frozenset({"sig-term"})
_VARIABLE: Final = re.compile(r"0x[0-9a-f]+|[0-9]+|[0-9a-f]{8,}", re.IGNORECASE)
_SURVIVORS_ADVICE: Final = (
    "Replicas told that a peer was gone, and none told why. Look at the machine and the log of the one that said least."
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Rules by id, in the order in which they win, the preset rows last; `presets` are their ids."""

    rules: Mapping[str, Rule]
    order: Mapping[str, int]
    presets: tuple[str, ...] = ()

    @classmethod
    def of(cls, rules: Sequence[Rule], presets: Sequence[Rule] = ()) -> Catalogue:
        """The catalogue of these rules, the first of which wins."""
        known = {rule.id: rule for rule in (*rules, *presets)}
        return cls(known, {rule: number for number, rule in enumerate(known)}, tuple(rule.id for rule in presets))

    def class_of(self, rule: str) -> FailureClass | None:
        """Class of a rule; None where it is none of the catalogue's, as a user's message."""
        known = self.rules.get(rule)
        return known.failure_class if known is not None else None


def root_cause(attempt: Attempt, found: Iterable[Found], catalogue: Catalogue) -> Cause | None:
    """The root cause of an attempt that has ended; None where nothing is known."""
    fact = fact_of(attempt.ended) if attempt.ended else None
    if fact is not None and fact.decides:
        return _of_fact(attempt, fact)
    lines = [each for each in found if not _is_ours(attempt, each)]
    original = _first_original(attempt, lines, catalogue)
    if original is not None:
        return _of_line(attempt, original, catalogue)
    if fact is not None:
        return _of_fact(attempt, fact)
    return _of_survivors(attempt, lines, catalogue)


def fingerprint(rule: str, line: str) -> str:
    """What is equal for two ends of the same kind: the rule, and the line without numbers and addresses."""
    return hashlib.sha256(f"{rule}\n{_VARIABLE.sub('#', line)}".encode()).hexdigest()[:12]


def _is_ours(attempt: Attempt, found: Found) -> bool:
    replica = attempt.replica(found.replica.role, found.replica.index)
    stopped = replica is not None and replica.exit is not None and replica.exit.cause == "stopped"
    return stopped and found.rule in _ABOUT_OUR_SIGNAL


def _first_original(attempt: Attempt, lines: Sequence[Found], catalogue: Catalogue) -> Found | None:
    firsts = _first_of_each(lines, catalogue)
    if not firsts:
        return None
    begin_ms = min(each.at_ms for each in firsts)
    own = [each for each in firsts if not catalogue.rules[each.rule].second_hand]
    of_own = [each for each in own if each.at_ms <= begin_ms + LAST_WORDS_MS]
    if not of_own:
        return min(firsts, key=lambda each: each.at_ms)
    first_ms, named = min(each.at_ms for each in of_own), _named_by_torchrun(attempt, lines)
    together = [each for each in of_own if each.at_ms <= first_ms + TOGETHER_MS]
    return min(together, key=lambda each: (_certainty(each, catalogue), _key(each.replica) not in named, each.at_ms))


def _first_of_each(lines: Sequence[Found], catalogue: Catalogue) -> list[Found]:
    """The first original error of each replica; of rules that hold on one line the one that wins."""
    known = [each for each in lines if each.rule in catalogue.order]
    winners: dict[tuple[tuple[str, int], int], Found] = {}
    for each in sorted(known, key=lambda found: catalogue.order[found.rule]):
        winners.setdefault((_key(each.replica), each.offset), each)
    firsts: dict[tuple[str, int], Found] = {}
    for each in sorted(winners.values(), key=lambda found: _place(found, catalogue)):
        if catalogue.class_of(each.rule) not in _NO_ORIGINAL and not each.survived:
            firsts.setdefault(_key(each.replica), each)
    return list(firsts.values())


def _place(found: Found, catalogue: Catalogue) -> tuple[int, int, int]:
    return found.at_ms, found.offset, catalogue.order[found.rule]


def _certainty(found: Found, catalogue: Catalogue) -> int:
    return _CERTAINTY.index(catalogue.rules[found.rule].failure_class)


def _named_by_torchrun(attempt: Attempt, lines: Iterable[Found]) -> frozenset[tuple[str, int]]:
    blocks = [each for each in lines if each.rule == torchrun.ROOT_CAUSE]
    named = [_replica_named(attempt, each) for each in blocks]
    return frozenset(each for each in named if each is not None)


def _replica_named(attempt: Attempt, block: Found) -> tuple[str, int] | None:
    """The replica whose host the block names; a host is called after its replica."""
    host = torchrun.host_in(block.line)
    named = (key for key in map(_key, attempt.replicas.values()) if host.endswith(f"-{key[0]}-{key[1]}"))
    return max(named, key=lambda key: len(key[0]), default=None)


def _of_line(attempt: Attempt, found: Found, catalogue: Catalogue) -> Cause:
    rule = catalogue.rules[found.rule]
    replica = attempt.replica(found.replica.role, found.replica.index)
    return Cause(
        rule=rule.id,
        failure_class=rule.failure_class,
        advice=rule.advice,
        replica=found.replica,
        node=replica.node or None if replica is not None else None,
        line=found.line,
        at=_instant(found.at_ms),
        fingerprint=fingerprint(rule.id, found.line),
    )


def _of_fact(attempt: Attempt, fact: Fact) -> Cause:
    ended = attempt.ended
    ref = ended.first_failure if ended is not None else None
    replica = attempt.replica(ref.role, ref.index) if ref is not None else None
    return Cause(
        rule=fact.rule,
        failure_class=fact.failure_class,
        advice=fact.advice,
        replica=ref,
        node=replica.node or None if replica is not None else None,
        at=replica.ended_at if replica is not None else None,
        fingerprint=None if fact.by_platform else fingerprint(fact.rule, ""),
    )


def _of_survivors(attempt: Attempt, lines: Sequence[Found], catalogue: Catalogue) -> Cause | None:
    cascades = [each for each in lines if catalogue.class_of(each.rule) is FailureClass.CASCADE and not each.survived]
    if not cascades:
        return None
    first = min(cascades, key=lambda each: _place(each, catalogue))
    return _of_line(attempt, first, catalogue).model_copy(
        update={"rule": ONLY_SURVIVORS, "failure_class": FailureClass.AMBIGUOUS, "advice": _SURVIVORS_ADVICE}
    )


def _instant(at_ms: int) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, UTC) if at_ms else None


def _key(replica: ReplicaRef | Replica) -> tuple[str, int]:
    return replica.role, replica.index
