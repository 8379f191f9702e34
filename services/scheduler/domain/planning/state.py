"""Everything that a plan depends on, kept up to date gang by gang: who waits, who holds what, and what that leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from services.scheduler.domain.gang import Gang, Pool
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import Node
from services.scheduler.domain.planning.plan import Plan, Snapshot
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.tenancy import Tenancy
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
        self._tenancy = Tenancy()
        self._layout = self.ledger.columns.layout
        self._expected: dict[str, datetime] = {}

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
        known = self._running.get(running.gang)
        if known is None or known.moves != running.moves:
            self.release(running.job)
            self._gang_of[running.job] = running.gang
            self.ledger.hold(running.gang, seats)
            self._usage.add(running.project, running.owner, running.roles)
            self._tenancy.hold(running.gang, self.ledger.holding(running.gang), running.ends_by)
        self._running[running.gang] = running
        self._tenancy.renew(running.gang, running.ends_by)

    def release(self, job: str) -> None:
        """Give back what the job's gang held, if anything."""
        gang = self._gang_of.pop(job, None)
        if gang is not None:
            running = self._running.pop(gang)
            self.ledger.release(gang)
            self._tenancy.release(gang)
            self._usage.remove(running.project, running.owner, running.roles)

    def forget_gangs(self) -> None:
        """Nobody waits, nobody holds anything."""
        for job in list(self._gang_of):
            self.release(job)
        self.queue = Queue()

    def snapshot(self, but: Iterable[str] = ()) -> Snapshot:
        """What a plan is made from, without the gangs of some jobs; valid until anything changes."""
        self._follow_layout()
        return Snapshot(
            self.ledger.columns,
            self.queue,
            self._usage,
            self.quotas,
            frozenset(but),
            self._running,
            self.ledger.holding,
            self._tenancy,
            self._expected,
        )

    def note(self, plan: Plan) -> None:
        """Remember what the next plan may begin with."""
        self._expected = {kept.gang.job: kept.at for kept in plan.reservations if kept.at is not None}

    def _follow_layout(self) -> None:
        """Rows mean other nodes in another layout."""
        if self._layout is not self.ledger.columns.layout:
            self._layout, self._tenancy = self.ledger.columns.layout, Tenancy()
            for gang, running in self._running.items():
                self._tenancy.hold(gang, self.ledger.holding(gang), running.ends_by)
