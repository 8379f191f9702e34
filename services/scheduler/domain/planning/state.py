"""Everything that a plan depends on, kept up to date gang by gang: who waits, who holds what, and what that leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.scheduler.domain.gang import Gang, Pool
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import Node
from services.scheduler.domain.planning.plan import Snapshot
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.usage import Usage
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.quotas import Quota


class State:
    """Nodes, pools, quotas, waiting and running gangs; one gang a job."""

    def __init__(self, nodes: Iterable[Node] = (), pools: Mapping[str, Pool] | None = None) -> None:
        self.ledger = Ledger(nodes, pools)
        self.queue = Queue()
        self.quotas: Mapping[str, Quota] = {}
        self._usage = Usage()
        self._running: dict[str, Running] = {}
        self._gang_of: dict[str, str] = {}

    @property
    def running(self) -> Mapping[str, Running]:
        """Gangs that hold a place, by id."""
        return self._running

    def wait(self, gang: Gang) -> None:
        """Let the gang wait for a place."""
        self.queue.add(gang)

    def wait_no_more(self, job: str) -> None:
        """The job waits for no place."""
        self.queue.remove(job)

    def hold(self, running: Running, seats: tuple[Seat, ...]) -> None:
        """Have the gang hold its seats; what is known of it is renewed where it holds them already."""
        if self._gang_of.get(running.job) != running.gang:
            self.release(running.job)
            self._gang_of[running.job] = running.gang
            self.ledger.hold(running.gang, seats)
            self._usage.add(running.project, running.owner, running.roles)
        self._running[running.gang] = running

    def release(self, job: str) -> None:
        """Give back what the job's gang held, if anything."""
        gang = self._gang_of.pop(job, None)
        if gang is not None:
            running = self._running.pop(gang)
            self.ledger.release(gang)
            self._usage.remove(running.project, running.owner, running.roles)

    def forget_gangs(self) -> None:
        """Nobody waits, nobody holds anything."""
        for job in list(self._gang_of):
            self.release(job)
        self.queue = Queue()

    def snapshot(self, but: Iterable[str] = ()) -> Snapshot:
        """What a plan is made from, without the gangs of some jobs; valid until anything changes."""
        return Snapshot(
            self.ledger.columns,
            self.queue,
            self._usage,
            self.quotas,
            frozenset(but),
            self._running,
            self.ledger.holding,
        )
