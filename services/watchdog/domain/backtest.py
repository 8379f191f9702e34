"""Trying rules on logs that are there already: which hold where, what the cause would be, and what would be decided.

Each log is read line by line as the watchdog reads it, so that every line on which a rule holds is told, and not only
the first. The attempt that is judged is made up: one replica a log, all of which failed with the exit code that is
given, the first log's first. Where a log comes with the times of its lines they put the logs in order, and say which
errors were survived; else a line is taken to come a second after the one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from services.watchdog.domain import progress as progress_in
from services.watchdog.domain import text as clean
from services.watchdog.domain.found import Found, Sighting
from services.watchdog.domain.policy import Heard, decide
from services.watchdog.domain.progress import Progress
from services.watchdog.domain.rootcause import Catalogue
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.terms import Terms
from shared import events as ev
from shared.jobs import Attempt, Job, JobState, Replica, replica_key

MATCHES_MAX: Final = 1000
_LINE_MS: Final = 1000
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one replica."""

    replica: ev.ReplicaRef
    data: bytes
    times: tuple[tuple[int, int], ...] = ()
    """Pairs of a line, counted from 1, and the Unix milliseconds at which the lines from there on were seen."""

    def time_of(self, number: int) -> int:
        """When a line was seen."""
        found = bisect_right(self.times, number, key=lambda pair: pair[0]) - 1
        return self.times[max(0, found)][1] if self.times else number * _LINE_MS


@dataclass(frozen=True, slots=True)
class Match:
    """A line on which a rule holds; `wins` where no other rule takes the line."""

    rule: str
    replica: ev.ReplicaRef
    number: int
    line: str
    wins: bool
    at_ms: int = 0


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
    progressed = {log.replica: _progressed_at(log) for log in logs}
    decision = decide(_job(logs, exit_code), terms, catalogue, Heard(tuple(_found(matches, progressed))))
    if decision is None:
        raise AssertionError("an attempt that failed is always decided about")
    classes = {rule: known.failure_class for rule, known in catalogue.rules.items()}
    return Outcome(tuple(matches[:MATCHES_MAX]), max(0, len(matches) - MATCHES_MAX), classes, decision)


def _lines(log: Log) -> Iterator[tuple[int, bytes]]:
    plain, unfinished = clean.without_escapes(log.data)
    text = clean.joined(clean.with_line_feeds(plain + unfinished) + b"\n")
    return enumerate(clean.lines_of(text), start=1)


def _matches(log: Log, tried: Trial) -> Iterator[Match]:
    for number, line in _lines(log):
        holding = tried.holding(line)
        for rule in holding:
            yield Match(rule, log.replica, number, clean.shown(line), rule == holding[0], log.time_of(number))


def _progressed_at(log: Log) -> int | None:
    """When the log told of progress last; None where its lines have no times, which say nothing of survival then."""
    progress, at_ms = Progress(), None
    for number, line in _lines(log) if log.times else ():
        seen = progress_in.seen_in(line, progress)
        if seen != progress:
            progress, at_ms = seen, log.time_of(number)
    return at_ms


def _found(matches: Sequence[Match], progressed: Mapping[ev.ReplicaRef, int | None]) -> Iterator[Found]:
    """What counts of the first and the last line of each rule in each log."""
    firsts: dict[tuple[str, ev.ReplicaRef], Match] = {}
    lasts: dict[tuple[str, ev.ReplicaRef], Match] = {}
    for match in matches:
        key = (match.rule, match.replica)
        firsts.setdefault(key, match)
        lasts[key] = match
    for (rule, replica), first in firsts.items():
        last = lasts[rule, replica]
        yield Found.of(rule, replica, _sighting(first), _sighting(last), progressed[replica])


def _sighting(match: Match) -> Sighting:
    return Sighting(match.line, match.at_ms, match.number)


def _job(logs: Sequence[Log], exit_code: int) -> Job:
    end = ev.ReplicaExit(code=exit_code)
    replicas = {
        replica_key(log.replica.role, log.replica.index): Replica(
            role=log.replica.role,
            index=log.replica.index,
            node=f"of {replica_key(log.replica.role, log.replica.index)}",
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
