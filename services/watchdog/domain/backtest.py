"""Trying rules on logs that are there already: which hold where, what the cause would be, and what would be decided.

Each log is read line by line as the watchdog reads it, so that every line on which a rule holds is told, and not only
the first. The attempt that is judged is made up: one replica a log, all of which failed with the exit code that is
given, the first log's first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from services.watchdog.domain import text as clean
from services.watchdog.domain.found import Found
from services.watchdog.domain.policy import Heard, decide
from services.watchdog.domain.rootcause import Catalogue
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.terms import Terms
from shared import events as ev
from shared.jobs import Attempt, Job, JobState, Replica, replica_key

MATCHES_MAX: Final = 1000
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one replica."""

    replica: ev.ReplicaRef
    data: bytes


@dataclass(frozen=True, slots=True)
class Match:
    """A line on which a rule holds; `wins` where no other rule takes the line."""

    rule: str
    replica: ev.ReplicaRef
    number: int
    line: str
    wins: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every match, at most `MATCHES_MAX`, and the decision that would be made."""

    matches: tuple[Match, ...]
    more: int
    classes: Mapping[str, FailureClass]
    decision: ev.RetryDecided


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried: rules that count. Those that admins only try themselves are theirs to see."""

    rules: Rulebook
    catalogue: Catalogue

    def holding(self, line: bytes) -> list[str]:
        """The rules that hold on a line, the one that wins first."""
        found = (place.rule for place in self.rules.search(line, {}).places)
        counting = (rule for rule in found if rule in self.catalogue.order or rule.startswith("message/"))
        return sorted(counting, key=lambda rule: self.rules.order[rule])


def try_out(logs: Sequence[Log], exit_code: int, terms: Terms, rules: Rulebook, catalogue: Catalogue) -> Outcome:
    """What the rules make of these logs; time is the order of the lines."""
    tried = Trial(rules, catalogue)
    matches = [match for log in logs for match in _matches(log, tried)]
    decision = decide(_job(logs, exit_code), terms, catalogue, Heard(tuple(_found(matches))))
    if decision is None:
        raise AssertionError("an attempt that failed is always decided about")
    classes = {rule: known.failure_class for rule, known in catalogue.rules.items()}
    return Outcome(tuple(matches[:MATCHES_MAX]), max(0, len(matches) - MATCHES_MAX), classes, decision)


def _matches(log: Log, tried: Trial) -> Iterator[Match]:
    plain, unfinished = clean.without_escapes(log.data)
    text = clean.joined(clean.with_line_feeds(plain + unfinished) + b"\n")
    for number, line in enumerate(clean.lines_of(text), start=1):
        holding = tried.holding(line)
        for rule in holding:
            yield Match(rule, log.replica, number, clean.shown(line), wins=rule == holding[0])


def _found(matches: Sequence[Match]) -> Iterator[Found]:
    """The first line of each rule in each log; lines are a second apart, so that their order is their time."""
    seen: set[tuple[str, ev.ReplicaRef]] = set()
    for match in matches:
        if (match.rule, match.replica) not in seen:
            seen.add((match.rule, match.replica))
            yield Found(match.rule, match.replica, match.line, match.number * 1000, match.number)


def _job(logs: Sequence[Log], exit_code: int) -> Job:
    end = ev.ReplicaExit(code=exit_code)
    replicas = {
        replica_key(log.replica.role, log.replica.index): Replica(
            role=log.replica.role,
            index=log.replica.index,
            node="its node",
            started_at=_EPOCH,
            ended_at=_EPOCH,
            exit=end,
        )
        for log in logs
    }
    ended = ev.AttemptEnded(reason=ev.EndReason.FAILED, first_failure=logs[0].replica, exit=end)
    attempt = Attempt(number=1, queued_at=_EPOCH, replicas=replicas, ended=ended, ended_at=_EPOCH)
    submitted = ev.Submitted(name="try", owner_name="", spec={}, resolved=ev.Resolved(cluster="", roles=()))
    return Job(
        id="try",
        owner="",
        project="",
        submitted=submitted,
        submitted_at=_EPOCH,
        submitted_sequence=0,
        state=JobState.DECIDING,
        sequence=0,
        attempts=(attempt,),
    )
