"""What the scheduler knows at this moment: nodes and what is held on them, pools, and the terms of every live job.

It is kept up to date by whoever follows jobs, catalog and inventory, also while another scheduler leads, and read by
the controller and the HTTP API. What a gang holds is taken from the record of its job, so that it can be rebuilt at
any time; only seats that are being put on record right now are held by `reserve` before the record says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

import structlog
from pydantic import ValidationError

from services.scheduler.domain.choosing import Among, among
from services.scheduler.domain.gang import Gang, Pool, Preemption, QueuePolicy, in_queue_order
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import Node
from services.scheduler.domain.placement import holds_capacity, seats_of
from services.scheduler.domain.planning.plan import Plan, Snapshot
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.quotas import Quota
from services.scheduler.domain.replacing import Replacement, replacement
from services.scheduler.domain.tenure import running_of, running_of_gang
from services.scheduler.domain.terms import Terms
from shared import catalog
from shared.catalog.places import PoolPreemption
from shared.jobs import Job, JobState
from shared.node_labels import MACHINE_LABEL


class World:
    """The scheduler's picture of cluster and jobs."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms | None] = {}
        self._state = State()
        self._pools: dict[str, Pool] = {}
        self._log = structlog.get_logger(service="scheduler")

    @property
    def ledger(self) -> Ledger:
        return self._state.ledger

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name."""
        return self._pools

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Take over a new inventory."""
        self._state.ledger.set_nodes(nodes)

    def set_pools(self, view: catalog.Catalog) -> None:
        """Take over the pools of the catalog."""
        documents = list(view.all(catalog.Pool))
        dedicated = tuple(_pool(document) for document in documents if document.spec.type == "dedicated")
        selecting = tuple(pool for pool in dedicated if pool.selects)
        self._pools = {document.name: _pool(document, selecting) for document in documents}
        self._state.ledger.set_pools(self._pools)

    def set_quotas(self, view: catalog.Catalog) -> None:
        """Take over the quotas of the catalog's projects."""
        quotas = ((project.name, project.spec.quotas) for project in view.all(catalog.Project))
        self._state.quotas = {
            name: Quota(quota.running_replicas, quota.gpus) for name, quota in quotas if quota is not None
        }

    def take(self, job: Job) -> None:
        """Take over where a job stands now; one that makes no sense is logged and left out."""
        try:
            self._take(job)
        except Exception:  # noqa: BLE001  # one broken record must not keep the others from being followed
            self._log.exception("job_not_understood", job=job.id)

    def take_all(self, jobs: Iterable[Job]) -> None:
        """Forget every job and take these live ones instead."""
        self._state.forget_gangs()
        known, self._terms = self._terms, {}
        for job in jobs:
            if job.id in known:  # a spec never changes, and takes the longest to read
                self._terms[job.id] = known[job.id]
            self.take(job)

    def terms(self, job: Job) -> Terms | None:
        """The job's terms; None, and an error in the log, where this version cannot read its spec."""
        if job.id not in self._terms:
            try:
                self._terms[job.id] = Terms.of(job)
            except (ValidationError, KeyError) as error:
                self._log.error("spec_unreadable", job=job.id, error=str(error))
                self._terms[job.id] = None
        return self._terms[job.id]

    def reserve(self, gang: Gang, seats: tuple[Seat, ...], now: datetime) -> None:
        """Hold seats that are about to be put on record; `take` of the job afterwards settles the matter."""
        self._state.hold(running_of_gang(gang, now), seats)

    def move(self, job: Job, seats: tuple[Seat, ...]) -> None:
        """Hold other seats for a placed gang, which are about to be put on record; `take` settles the matter."""
        terms = self.terms(job)
        if terms is not None:
            running = running_of(job, terms)
            self._state.hold(replace(running, moves=running.moves + 1), seats)

    def waiting(self) -> tuple[Gang, ...]:
        """Gangs that wait for a place, in queue order."""
        return in_queue_order(self._state.queue)

    @property
    def queued(self) -> int:
        """How many gangs wait for a place."""
        return len(self._state.queue)

    def replacement(self, job: Job) -> Replacement | None:
        """What can be done about nodes of the job that its diagnosis speaks against."""
        terms = self.terms(job)
        return None if terms is None else replacement(job, terms, self._state.ledger.columns)

    def snapshot(self, but: Iterable[str] = ()) -> Snapshot:
        """What a plan is made from, without the gangs of some jobs; valid until the world next changes."""
        return self._state.snapshot(but)

    def note(self, plan: Plan) -> None:
        """Remember of a plan what makes the next one quicker."""
        self._state.note(plan)

    def machines(self, nodes: Iterable[str]) -> dict[str, str]:
        """The machines that these nodes are on, where the engine tells."""
        known = [self._state.ledger.rooms[node].node for node in nodes if node in self._state.ledger.rooms]
        return {node.id: node.labels[MACHINE_LABEL] for node in known if MACHINE_LABEL in node.labels}

    def among(self, job: Job) -> dict[str, Among]:
        """Among which nodes others may choose for each role, where they do."""
        terms, ledger = self.terms(job), self._state.ledger
        return {} if terms is None else among(terms.gang(job), self._pools, ledger.nodes.values())

    def node_names(self, nodes: Iterable[str]) -> dict[str, str]:
        """What people call these nodes, by their ids."""
        rooms = self._state.ledger.rooms
        return {node: rooms[node].node.name for node in nodes if node in rooms}

    def _take(self, job: Job) -> None:
        terms = None if job.ended else self.terms(job)
        if terms is not None:
            self._take_live(job, terms)
            return
        self._state.release(job.id)
        self._state.wait_no_more(job.id)
        if job.ended:
            self._terms.pop(job.id, None)

    def _take_live(self, job: Job, terms: Terms) -> None:
        if job.state is JobState.QUEUED:
            self._state.wait(terms.gang(job))
        else:
            self._state.wait_no_more(job.id)
        if holds_capacity(job):
            self._state.hold(running_of(job, terms), seats_of(job.attempt, terms))
        else:
            self._state.release(job.id)


def _pool(document: catalog.Pool, dedicated: tuple[Pool, ...] = ()) -> Pool:
    spec = document.spec
    return Pool(
        name=document.name,
        cluster=spec.cluster,
        policy=QueuePolicy(spec.queue_policy),
        node_names=frozenset(spec.nodes.names),
        node_labels=dict(spec.nodes.labels),
        dedicated=dedicated,
        preemption=_preemption(spec.preemption),
    )


def _preemption(allowed: PoolPreemption | None) -> Preemption | None:
    return Preemption(allowed.protected_run_time_s) if allowed and allowed.enabled else None
