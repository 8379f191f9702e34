"""What is to be billed for an attempt: pure arithmetic over the folded job, in whole milliseconds and whole micros.

Time is cut into windows of ten minutes aligned to UTC; the end of an attempt cuts its last one short. A *spell* is one
phase of one role. Its replicas enter it together (`running` begins when every replica runs, which is the `started`
event); each leaves it with its own confirmed end, or with the end of the phase or the attempt. The replica time of a
window is the difference of two cumulative sums, and so is its amount: the price an hour times the sum up to the end of
the window, rounded down, less the same up to its start. Rounding therefore never adds up, and the windows of a spell
come to exactly its total.

Only running replicas with a price are billed: instance types on public pools had one when the job was submitted, and
dedicated pools have none. The phases before it are recorded, with an amount of nothing.

Windows of a live attempt can be read once they have closed and what happened in them has been reported; with the end of
the attempt everything about it is known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.events import EndReason, ResolvedRole, UsagePhase
from shared.jobs import Attempt, Job, Replica

WINDOW: Final = timedelta(minutes=10)
# Ends of replicas are reported within a second; a window waits a little longer before it is read.
SETTLE: Final = timedelta(seconds=15)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_WINDOW_MS: Final = WINDOW // _MS
_HOUR_MS: Final = timedelta(hours=1) // _MS


@dataclass(frozen=True, slots=True)
class Used:
    """Replica time and what it costs."""

    replica_ms: int = 0
    amount_micros: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(self.replica_ms + other.replica_ms, self.amount_micros + other.amount_micros)

    def __sub__(self, other: Used) -> Used:
        return Used(self.replica_ms - other.replica_ms, self.amount_micros - other.amount_micros)


@dataclass(frozen=True, slots=True)
class Spell:
    """One phase of one role: the ends of those that left it, in order, and how many are still in it."""

    role: ResolvedRole
    phase: UsagePhase
    begin_ms: int
    ends_ms: tuple[int, ...]
    staying: int

    @property
    def billable(self) -> bool:
        """Whether it costs anything."""
        return self.phase is UsagePhase.RUNNING and self.role.price_micros_per_hour is not None

    def used(self, until_ms: int) -> Used:
        """All of it up to an instant."""
        left = bisect_right(self.ends_ms, until_ms)
        still = len(self.ends_ms) - left + self.staying
        replica_ms = sum(self.ends_ms[:left]) - left * self.begin_ms + still * max(0, until_ms - self.begin_ms)
        price = self.role.price_micros_per_hour or 0
        return Used(replica_ms, replica_ms * price // _HOUR_MS if self.billable else 0)

    def over_ms(self, until_ms: int) -> int:
        """When the last replica left it, or the given instant where some have not."""
        return until_ms if self.staying else max(self.ends_ms, default=self.begin_ms)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a spell used in one window; `id` is the id of the usage event."""

    id: str
    spell: Spell
    start_ms: int
    end_ms: int
    used: Used


def next_tick(now: datetime) -> datetime:
    """When the next window can be read."""
    elapsed = now - SETTLE - _EPOCH
    return _EPOCH + (elapsed // WINDOW + 1) * WINDOW + SETTLE


def spells(job: Job, attempt: Attempt) -> Iterator[Spell]:
    """Every phase of every role so far; none before the attempt is placed."""
    for phase, begin, end in _phases(attempt):
        for role in job.submitted.resolved.roles:
            replicas = [replica for replica in attempt.replicas.values() if replica.role == role.name]
            yield _spell(role, phase, begin, end, replicas)


def readings(job: Job, attempt: Attempt, now: datetime) -> Iterator[Reading]:
    """Each window in which something was used: all of an ended attempt, those that have settled of a live one."""
    until_ms = to_ms(now - SETTLE) if attempt.ended_at is None else to_ms(attempt.ended_at)
    for spell in spells(job, attempt):
        yield from _windows(f"{job.id}/{attempt.number}", spell, until_ms, ended=attempt.ended is not None)


def totals(job: Job, attempt: Attempt, now: datetime) -> dict[tuple[str, UsagePhase], Used]:
    """What each spell used until now, without any windows; a lost attempt costs nothing."""
    until_ms = to_ms(attempt.ended_at or now)
    return {
        (spell.role.name, spell.phase): Used() if is_credited(spell, attempt) else spell.used(spell.over_ms(until_ms))
        for spell in spells(job, attempt)
    }


def is_credited(spell: Spell, attempt: Attempt) -> bool:
    """Whether what the spell cost is given back, since the attempt was lost to the platform."""
    return spell.billable and attempt.ended is not None and attempt.ended.reason is EndReason.PLATFORM


def to_ms(time: datetime) -> int:
    """Milliseconds since 1970."""
    return (time - _EPOCH) // _MS


def from_ms(instant_ms: int) -> datetime:
    """The reverse of `to_ms`."""
    return _EPOCH + instant_ms * _MS


def _phases(attempt: Attempt) -> Iterator[tuple[UsagePhase, datetime, datetime | None]]:
    if attempt.placement is None or attempt.placed_at is None:
        return
    over = attempt.ended_at
    if attempt.placement.diagnosing:
        yield UsagePhase.DIAGNOSING, attempt.placed_at, attempt.admitted_at or over
    admitted_at = attempt.admitted_at if attempt.placement.diagnosing else attempt.placed_at
    if admitted_at is not None:
        yield UsagePhase.STARTING, admitted_at, attempt.started_at or over
    if attempt.started_at is not None:
        yield UsagePhase.RUNNING, attempt.started_at, over


def _spell(
    role: ResolvedRole, phase: UsagePhase, begin: datetime, end: datetime | None, replicas: list[Replica]
) -> Spell:
    # Clocks may have been set back in between; nothing ends before it began.
    known = [min(filter(None, (replica.ended_at, end)), default=None) for replica in replicas]
    ends_ms = sorted(max(to_ms(begin), to_ms(left)) for left in known if left is not None)
    return Spell(role, phase, to_ms(begin), tuple(ends_ms), len(known) - len(ends_ms))


def _windows(attempt: str, spell: Spell, until_ms: int, *, ended: bool) -> Iterator[Reading]:
    over_ms = spell.over_ms(until_ms)
    start_ms = spell.begin_ms // _WINDOW_MS * _WINDOW_MS
    before = Used()
    while start_ms < over_ms and (ended or start_ms + _WINDOW_MS <= until_ms):
        end_ms = start_ms + _WINDOW_MS
        upto = spell.used(end_ms)
        if upto.replica_ms > before.replica_ms:
            cut_ms = min(end_ms, until_ms) if ended else end_ms
            yield Reading(_record_id(attempt, spell, start_ms), spell, start_ms, cut_ms, upto - before)
        start_ms, before = end_ms, upto


def _record_id(attempt: str, spell: Spell, start_ms: int) -> str:
    """`<job>/<attempt>/<role>/<window start>`; what is not running has its phase behind it, to be told apart."""
    window = f"{from_ms(start_ms):%Y-%m-%dT%H:%M:%SZ}"
    phase = "" if spell.phase is UsagePhase.RUNNING else f"/{spell.phase}"
    return f"{attempt}/{spell.role.name}/{window}{phase}"
