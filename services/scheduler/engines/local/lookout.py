"""Watches replicas for one observer: tells each start and each end once, and finds out about ends that nobody told.

A look at what the runners have told is cheap and taken at each ring of the bell. Whether a runner that has told no end
is still there is asked, by trying its lock, only in a thorough round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from services.scheduler.engines.local import replica_state
from services.scheduler.engines.local.files import read_text
from services.scheduler.engines.local.gang_dir import GangDir, ReplicaDir
from services.scheduler.engines.local.launcher import Child
from services.scheduler.engines.local.strays import end_strays
from services.scheduler.ports.reports import ReplicaExited, ReplicaStarted
from shared.clock import Clock
from shared.ids import ReplicaId


class Lookout:
    """What one observer has been told so far."""

    def __init__(self, children: Mapping[ReplicaId, Child], boot_id: str, clock: Clock) -> None:
        self._children = children
        self._boot_id = boot_id
        self._clock = clock
        self._told_start: set[ReplicaId] = set()
        self._told_end: set[ReplicaId] = set()
        self._log = structlog.get_logger(service="scheduler")
        self.thorough = True
        self.closing = False

    def begin(self, *, thorough: bool) -> None:
        """Begin a round over all gangs; after it `closing` says whether a replica is about to be gone."""
        self.thorough = thorough
        self.closing = False

    def news(self, gang_dir: GangDir) -> Iterator[ReplicaStarted | ReplicaExited]:
        """What happened in the gang since the last call."""
        for replica in gang_dir.replicas.values():
            if replica.ref.id not in self._told_end:
                yield from self._news_of(replica, gang_dir)

    def forget(self, gang_dir: GangDir) -> None:
        """The gang is gone."""
        ids = {replica.ref.id for replica in gang_dir.replicas.values()}
        self._told_start -= ids
        self._told_end -= ids

    def _news_of(self, replica: ReplicaDir, gang_dir: GangDir) -> Iterator[ReplicaStarted | ReplicaExited]:
        # The end is read first: a runner that ends between the two reads is then seen as started, not as never started.
        end = replica_state.ended(replica)
        start = replica_state.started(replica)
        if start is not None and replica.ref.id not in self._told_start:
            self._told_start.add(replica.ref.id)
            yield ReplicaStarted(replica.ref, start.started_at)
        if end is None and self._conclude(replica, gang_dir, has_started=start is not None):
            end = replica_state.ended(replica)
        if end is not None and self._is_gone(replica):
            self._told_end.add(replica.ref.id)
            yield ReplicaExited(replica.ref, end.ended_at, replica_state.exit_of(end))

    def _conclude(self, replica: ReplicaDir, gang_dir: GangDir, *, has_started: bool) -> bool:
        """Write down an end that nobody told; false while the replica runs, or waits for its start."""
        if not has_started:
            child = self._children.get(replica.ref.id)
            if child is None or not child.is_gone():
                return False
            message = f"it could not be started: {_last_line(replica)}"
            return self._write_down(replica, "never-started", message)
        if not self.thorough or not replica_state.is_settled(replica) or self._end_strays(replica):
            return False
        rebooted = gang_dir.record.boot_id != self._boot_id
        message = "the machine was restarted" if rebooted else "its runner was killed"
        return self._write_down(replica, "lost", message)

    def _write_down(self, replica: ReplicaDir, cause: replica_state.Cause, message: str) -> bool:
        done = replica_state.conclude(replica, cause, message, self._clock)
        if done:
            who = replica.ref
            told = self._log.bind(job=who.job, attempt=who.attempt, role=who.role, index=who.index)
            told.warning("replica_end_found", cause=cause, reason=message)
        return done

    def _end_strays(self, replica: ReplicaDir) -> bool:
        """Whether something of the replica was still there."""
        # A runner that has just ended by itself leaves a free lock too, but also its word.
        found = replica_state.ended(replica) is None and end_strays(replica.ref) > 0
        self.closing |= found
        return found

    def _is_gone(self, replica: ReplicaDir) -> bool:
        settled = replica_state.is_settled(replica)
        self.closing |= not settled
        return settled


def _last_line(replica: ReplicaDir) -> str:
    lines = read_text(replica.log).strip().splitlines()
    return lines[-1] if lines else "bubblewrap or the runner ended at once and said nothing"
