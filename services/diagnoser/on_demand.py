"""Diagnoses that an admin asks for: of these nodes, now, perhaps with pretended faults; and those on record.

What is asked for is put on record as a check (`check_runs` runs it), so that it outlives a restart, and any instance
can tell how far it is. Nodes that a job holds are looked at and not put under load.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from services.diagnoser.adapters.check_log import CheckLog
from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.adapters.ledger_file import Listed
from services.diagnoser.adapters.profiles import CatalogProfiles
from services.diagnoser.asking import Subject
from services.diagnoser.domain.budget import budget_s, most_s
from services.diagnoser.domain.checks import Check
from services.diagnoser.domain.entries import Entry, entry_of
from services.diagnoser.domain.injection import read_injections
from services.diagnoser.domain.stages import Profile
from services.diagnoser.procedure import Procedure
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import ConflictError, ForbiddenError, NotFoundError
from shared.events import CheckEnded, CheckRequested, NodeDiagnosed, NodeReported

MOST_UNDER_WAY: Final = 32
_ID_BYTES: Final = 6


class Holdings(Protocol):
    """Knows who works where, once it has caught up."""

    caught_up: asyncio.Event

    def held(self) -> frozenset[str]:
        """Nodes that a job holds."""
        ...


class Audience(Protocol):
    """Knows who may see which job."""

    async def may_see(self, principal: Principal, job_id: str) -> bool:
        """Whether they may see the job."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants diagnosed; with `idle_only` jobs that come end it."""

    nodes: tuple[str, ...]
    inject: tuple[str, ...] = ()
    thorough: bool = True
    idle_only: bool = False
    instance_type: str = ""
    deep: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a diagnosis will take where no suspect turns up, and at most; `tested` are nodes that have no pass."""

    budget_s: float
    most_s: float
    tested: tuple[str, ...]


class OnDemand:
    """Asks for checks, and finds them and reports again."""

    def __init__(
        self,
        procedure: Procedure,
        ledger: HealthLedger,
        log: CheckLog,
        holdings: Holdings,
        profiles: CatalogProfiles,
        audience: Audience,
        clock: Clock,
    ) -> None:
        self._procedure = procedure
        self._ledger = ledger
        self._log = log
        self._holdings = holdings
        self._profiles = profiles
        self._audience = audience
        self._clock = clock
        self._told = structlog.get_logger(service="diagnoser")

    async def begin(self, principal: Principal, wanted: Wanted) -> Check:
        """Ask for one; raises ForbiddenError, NotFoundError, InvalidInputError or ConflictError."""
        _must_be_admin(principal)
        return await self.request(principal.name, wanted, f"dg-{secrets.token_hex(_ID_BYTES)}")

    async def budget(self, gpus: Mapping[str, int], instance_types: Iterable[str]) -> Budget:
        """How long the diagnosis of a job will take that gets so many GPUs of each of these nodes.

        Raises NotFoundError or InvalidInputError where a node or an instance type is not known.
        """
        await self._caught_up()
        names = self._resolved(gpus)
        wanted = {node: gpus.get(each.name or node, gpus.get(node, 0)) for node, each in names.items()}
        profile = Profile.merged([await self._profiles.of_type(name) for name in instance_types])
        subject = Subject(
            *("", tuple(sorted(names)), {node: self._ledger.book.machine(node) for node in names}),
            devices={node: each.devices[: wanted[node]] for node, each in names.items()},
            profiles=dict.fromkeys(names, profile),
        )
        plan = self._procedure.plan(subject)
        return Budget(budget_s(plan), most_s(plan), tuple(names[node].name or node for node in plan.fresh))

    async def cancel(self, principal: Principal, check: str) -> Check:
        """End one that is queued or running; raises ForbiddenError, NotFoundError or ConflictError."""
        _must_be_admin(principal)
        await self._caught_up()
        known = self._log.checks.by_id.get(check)
        if known is None and self._ledger.report(check):
            raise ConflictError(f"diagnosis {check} has ended already, or is a job's, which ends with the job")
        if known is None:
            raise NotFoundError("diagnosis", check)
        if known.has_ended:
            raise ConflictError(f"diagnosis {check} has ended already: {known.state}")
        await self._log.put(CheckEnded(check=check, outcome="cancelled", message=f"cancelled by {principal.name}"))
        self._told.info("check_cancelled", check=check, by=principal.name)
        return self._log.checks.by_id[check]

    def is_under_way(self, by: str) -> bool:
        """Whether one is that this author has asked for."""
        return any(each.requested.by == by for each in self._log.checks.under_way())

    async def request(self, by: str, wanted: Wanted, check: str) -> Check:
        """Ask for one in the name of somebody who may; raises NotFoundError, InvalidInputError or ConflictError.

        Of several instances that ask for a check of the same name at once, one is heard.
        """
        await self._caught_up()
        await self._holdings.caught_up.wait()
        if sum(1 for _ in self._log.checks.under_way()) >= MOST_UNDER_WAY:
            raise ConflictError(f"{MOST_UNDER_WAY} diagnoses are asked for and not done yet; wait for some of them")
        requested = await self._requested(by, wanted, check)
        await self._log.put(requested)
        self._told.info("check_requested", check=check, by=by, budget_s=requested.budget_s)
        return self._log.checks.by_id[check]

    async def find(self, principal: Principal, diagnosis: str) -> tuple[Check | None, tuple[NodeDiagnosed, ...]]:
        """The diagnosis and what is on record of it; that of a job for those who may see the job, else for admins.

        Raises ForbiddenError or NotFoundError.
        """
        await self._caught_up()
        check, parts = self._log.checks.by_id.get(diagnosis), self._ledger.report(diagnosis)
        job = parts[0].job if parts else ""
        if not job or not await self._audience.may_see(principal, job):
            _must_be_admin(principal)
        if check is None and not parts:
            raise NotFoundError("diagnosis", diagnosis)
        return check, parts

    async def entry(self, principal: Principal, node: str) -> tuple[Entry, Mapping[str, str]]:
        """What the ledger says of a node, by name or id, and all names; raises ForbiddenError or NotFoundError."""
        _must_be_admin(principal)
        await self._caught_up()
        book = self._ledger.book
        names = {each: page.reported.name or each for each, page in book.pages.items() if page.reported}
        found = next((each for each, name in names.items() if node in (each, name)), node)
        entry = entry_of(book, found, self._clock.now())
        if entry is None:
            raise NotFoundError("node", node)
        return entry, names

    async def reports(self, principal: Principal, limit: int) -> list[tuple[Check | None, Listed | None]]:
        """The latest, newest first, those that are under way or gave no report, too; raises ForbiddenError."""
        _must_be_admin(principal)
        await self._caught_up()
        checks, reports = self._log.checks.by_id, self._ledger.latest(limit)
        told = {each.first.diagnosis for each in reports}
        found: list[tuple[Check | None, Listed | None]] = [(checks.get(each.first.diagnosis), each) for each in reports]
        found += [(check, None) for check in list(checks.values())[-limit:] if check.id not in told]
        return sorted(found, key=_asked_at, reverse=True)[:limit]

    async def _caught_up(self) -> None:
        await self._ledger.caught_up.wait()
        await self._log.caught_up.wait()

    async def _requested(self, by: str, wanted: Wanted, check: str) -> CheckRequested:
        reported = self._resolved(wanted.nodes)
        names = {each.name: node for node, each in reported.items() if each.name} | {node: node for node in reported}
        read_injections(wanted.inject, names)
        nodes = tuple(sorted(reported))
        machines = {node: self._ledger.book.machine(node) for node in reported}
        devices = {node: each.devices for node, each in reported.items()}
        profile = await self._profiles.of_type(wanted.instance_type)
        subject = Subject(
            *(check, nodes, machines, devices),
            thorough=wanted.thorough,
            deep=wanted.deep,
            profiles=dict.fromkeys(nodes, profile),
        )
        if wanted.deep:
            await self._refuse_deep(subject, {node: each.name or node for node, each in reported.items()})
        plan = self._procedure.plan(subject)
        return CheckRequested(
            check=check,
            cluster=min(each.cluster for each in reported.values()),
            nodes=nodes,
            by=by,
            inject=wanted.inject,
            thorough=wanted.thorough,
            idle_only=wanted.idle_only,
            instance_type=wanted.instance_type,
            deep=wanted.deep,
            budget_s=budget_s(plan),
            most_s=most_s(plan),
        )

    async def _refuse_deep(self, subject: Subject, names: Mapping[str, str]) -> None:
        """Raise ConflictError where a node cannot have NVIDIA's own tests."""
        refusals = await self._procedure.deep_refusals(subject)
        if refusals:
            told = "; ".join(f"{names[node]}: {why}" for node, why in sorted(refusals.items()))
            raise ConflictError(f"deep tests are not possible: {told}")

    def _resolved(self, names: Iterable[str]) -> Mapping[str, NodeReported]:
        known = {node: page.reported for node, page in self._ledger.book.pages.items() if page.reported}
        by_name = {each.name: node for node, each in known.items() if each.name} | {node: node for node in known}
        missing = [name for name in names if name not in by_name]
        if missing:
            raise NotFoundError("node", missing[0])
        return {by_name[name]: known[by_name[name]] for name in names}


def _asked_at(listed: tuple[Check | None, Listed | None]) -> datetime:
    check, report = listed
    if check is not None:
        return check.requested_at
    return report.first.began if report is not None else datetime.min.replace(tzinfo=UTC)


def _must_be_admin(principal: Principal) -> None:
    if not principal.admin:
        raise ForbiddenError("only admins have nodes diagnosed, and see reports that are not of a job of theirs")
