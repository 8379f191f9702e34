"""Diagnoses that an admin asks for: of these nodes, now, perhaps with pretended faults.

Nodes that a job holds are looked at and not put under load. At most `AT_ONCE` run at a time. One that runs while the
diagnoser is ended is not taken up again; what it put on record by then is its report.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

import structlog

from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.domain.budget import budget_s, most_s
from services.diagnoser.domain.injection import read_injections
from services.diagnoser.domain.reports import Occasion, part_of
from services.diagnoser.procedure import LIMIT_S, Procedure, Subject
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import ConflictError, ForbiddenError, NotFoundError, TrainmasterError
from shared.events import NodeDiagnosed, NodeReported
from shared.tasks import end

AT_ONCE: Final = 4
KEPT: Final = 200
_ID_BYTES: Final = 6
_MACHINE_LABEL: Final = "machine"

State = Literal["running", "finished", "failed"]


class Holdings(Protocol):
    """Knows who works where."""

    def held(self) -> frozenset[str]:
        """Nodes that a job holds."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an admin wants diagnosed."""

    nodes: tuple[str, ...]
    inject: tuple[str, ...] = ()
    thorough: bool = True


@dataclass(slots=True)
class Running:
    """A diagnosis that was asked for; `message` says why it failed."""

    id: str
    nodes: tuple[str, ...]
    began: datetime
    by: str
    budget_s: float
    most_s: float
    in_use: tuple[str, ...]
    injected: tuple[str, ...]
    state: State = "running"
    message: str = ""


class OnDemand:
    """Starts diagnoses, and knows those that were started here."""

    def __init__(self, procedure: Procedure, ledger: HealthLedger, holdings: Holdings, clock: Clock) -> None:
        self._procedure = procedure
        self._ledger = ledger
        self._holdings = holdings
        self._clock = clock
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger(service="diagnoser")

    async def begin(self, principal: Principal, wanted: Wanted) -> Running:
        """Start one; raises ForbiddenError, NotFoundError, InvalidInputError or ConflictError."""
        _must_be_admin(principal)
        return await self.start(principal.name, wanted)

    def is_running(self, by: str) -> bool:
        """Whether one runs that this author has started."""
        return any(each.by == by and each.state == "running" for each in self._running.values())

    async def start(self, by: str, wanted: Wanted) -> Running:
        """Start one in the name of somebody who may; raises NotFoundError, InvalidInputError or ConflictError."""
        await self._ledger.caught_up.wait()
        if sum(each.state == "running" for each in self._running.values()) >= AT_ONCE:
            raise ConflictError(f"{AT_ONCE} diagnoses are running already; wait for one of them")
        reported = self._resolved(wanted.nodes)
        names = {node: each.name or node for node, each in reported.items()}
        ids = {name: node for node, name in names.items()} | {node: node for node in names}
        subject = Subject(
            session=f"dg-{secrets.token_hex(_ID_BYTES)}",
            nodes=tuple(sorted(reported)),
            machines={node: each.labels.get(_MACHINE_LABEL, node) for node, each in reported.items()},
            devices={node: each.devices for node, each in reported.items()},
            in_use=self._holdings.held() & reported.keys(),
            names=names,
            injections=read_injections(wanted.inject, ids),
            thorough=wanted.thorough,
        )
        running = self._planned(subject, by)
        self._remember(running)
        clusters = {each.cluster for each in reported.values()}
        occasion = Occasion(running.id, min(clusters), running.began, names, injected=subject.injected)
        self._begin(subject, occasion, running)
        return running

    def find(self, principal: Principal, diagnosis: str) -> tuple[Running | None, tuple[NodeDiagnosed, ...]]:
        """The diagnosis and what is on record of it; raises ForbiddenError or NotFoundError."""
        _must_be_admin(principal)
        running, parts = self._running.get(diagnosis), self._ledger.book.report(diagnosis)
        if running is None and not parts:
            raise NotFoundError("diagnosis", diagnosis)
        return running, parts

    def reports(self, principal: Principal, limit: int) -> Sequence[tuple[NodeDiagnosed, ...]]:
        """The latest reports, newest first; raises ForbiddenError."""
        _must_be_admin(principal)
        return self._ledger.book.latest(limit)

    async def close(self) -> None:
        """End what runs."""
        await end(*self._tasks)

    def _resolved(self, names: Iterable[str]) -> Mapping[str, NodeReported]:
        known = {node: page.reported for node, page in self._ledger.book.pages.items() if page.reported}
        by_name = {each.name: node for node, each in known.items() if each.name} | {node: node for node in known}
        missing = [name for name in names if name not in by_name]
        if missing:
            raise NotFoundError("node", missing[0])
        return {by_name[name]: known[by_name[name]] for name in names}

    def _planned(self, subject: Subject, by: str) -> Running:
        now = self._clock.now()
        fresh = self._procedure.fresh(subject)
        return Running(
            id=subject.session,
            nodes=subject.nodes,
            began=now,
            by=by,
            budget_s=budget_s(subject.nodes, fresh, subject.machines, LIMIT_S),
            most_s=most_s(subject.nodes, fresh, subject.machines, LIMIT_S),
            in_use=tuple(sorted(subject.in_use)),
            injected=subject.injected,
        )

    def _remember(self, running: Running) -> None:
        """Keep it, and forget the oldest of many that have ended; their reports are on record."""
        ended = [each.id for each in self._running.values() if each.state != "running"]
        for diagnosis in ended[: max(len(ended) - KEPT, 0)]:
            del self._running[diagnosis]
        self._running[running.id] = running

    def _begin(self, subject: Subject, occasion: Occasion, running: Running) -> None:
        self._log.info("diagnosis_begun", diagnosis=running.id, by=running.by, budget_s=running.budget_s)
        task = asyncio.create_task(self._run(subject, occasion, running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, subject: Subject, occasion: Occasion, running: Running) -> None:
        try:
            before = self._ledger.book.known(subject.nodes, occasion.began)
            examination = await self._procedure.run(subject, _always)
            now, count = self._clock.now(), len(subject.nodes)
            for node in subject.nodes:
                finding = examination.finding(node)
                part = part_of(examination, finding, occasion, before, node_count=count, now=now)
                await self._ledger.take(finding, part)
            running.state = "finished"
        except TrainmasterError as error:
            running.state, running.message = "failed", error.message
        except Exception as error:  # noqa: BLE001  # whoever asked must learn of it, whatever it is
            running.state, running.message = "failed", f"an error of the platform ({type(error).__name__})"
            self._log.exception("diagnosis_failed", diagnosis=running.id)


async def _always() -> bool:
    return True


def _must_be_admin(principal: Principal) -> None:
    if not principal.admin:
        raise ForbiddenError("only admins have nodes diagnosed, and see the reports")
