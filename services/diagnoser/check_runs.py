"""Running the checks that were asked for: takes one off the queue, tests, puts on record what it found, and its end.

A check waits in the stream until an instance has time for it, and comes again where that instance dies; so it is begun
by whoever is there, and its end is recorded once. It waits for those that were asked for earlier and want one of its
machines, so that each has its turn, and leases the machines that it puts under load. An admin may cancel it, which is
on record like any end, so that whoever runs it, or would, leaves off.

A job never waits for a check: as soon as a job gets one of the nodes that are being tested, the tests are cancelled and
their workers ended. A check of idle nodes is over then; one that an admin wants begins anew without that node,
`MOST_RUNS` times at most.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from services.diagnoser.adapters.check_log import CheckLog
from services.diagnoser.adapters.leases import Leases
from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.asking import Subject
from services.diagnoser.domain.examination import Examination
from services.diagnoser.domain.injection import read_injections
from services.diagnoser.domain.reports import Occasion, part_of
from services.diagnoser.domain.stages import Profile
from services.diagnoser.interrupting import CutShortError, unless
from services.diagnoser.procedure import Procedure
from shared.bus import BusUnavailableError
from shared.clock import Clock
from shared.errors import NotFoundError, TrainmasterError, UnavailableError
from shared.events import CheckEnded, CheckRequested, CheckStarted, NodeReported
from shared.jobs import Recorded

MOST_RUNS: Final = 3
_RUN_BYTES: Final = 4


class Holdings(Protocol):
    """Knows who works where, once it has caught up."""

    caught_up: asyncio.Event

    def held(self) -> frozenset[str]:
        """Nodes that a job holds."""
        ...

    async def placed_on(self, nodes: frozenset[str]) -> None:
        """Return as soon as a job holds one of these nodes."""
        ...


class Profiles(Protocol):
    """Knows what instance types say of diagnoses."""

    async def of_type(self, name: str) -> Profile:
        """The profile of one type, and of none without a name; raises NotFoundError."""
        ...


@dataclass(frozen=True, slots=True)
class _Run:
    """One try of a check."""

    check: CheckRequested
    subject: Subject
    occasion: Occasion

    @property
    def under_load(self) -> frozenset[str]:
        """Nodes that it tests."""
        return frozenset(self.subject.nodes) - self.subject.in_use

    @property
    def machines(self) -> frozenset[str]:
        """Machines of these nodes."""
        return frozenset(self.subject.machine(node) for node in self.under_load)


class CheckRuns:
    """Handler of `check.requested`."""

    def __init__(
        self,
        procedure: Procedure,
        ledger: HealthLedger,
        log: CheckLog,
        leases: Leases,
        holdings: Holdings,
        profiles: Profiles,
        clock: Clock,
        leaving: asyncio.Event,
    ) -> None:
        self._procedure = procedure
        self._ledger = ledger
        self._log = log
        self._leases = leases
        self._holdings = holdings
        self._profiles = profiles
        self._clock = clock
        self._leaving = leaving
        self._told = structlog.get_logger(service="diagnoser")

    async def on_requested(self, recorded: Recorded) -> None:
        """Run the check, unless its end is on record."""
        check = recorded.event.data
        if not isinstance(check, CheckRequested) or await self._log.has_ended(check.check):
            return
        await self._ledger.caught_up.wait()
        await self._holdings.caught_up.wait()
        await self._log.reached(recorded.sequence)
        ended = await self._ended(check)
        if not await self._log.has_ended(check.check):
            await self._log.put(ended)
        self._told.info("check_ended", check=check.check, outcome=ended.outcome, message=ended.message)

    async def _ended(self, check: CheckRequested) -> CheckEnded:
        """What came of it; raises UnavailableError where another instance, or this one later, is to begin it anew."""
        waits = {"cancelled": self._log.ended(check.check), "leaving": self._leaving.wait()}
        try:
            return await unless(waits, self._outcome(check))
        except CutShortError as cut:
            if cut.by == "cancelled":
                return CheckEnded(check=check.check, outcome="cancelled")
            raise UnavailableError(f"check {check.check} is left to another instance") from cut
        except (UnavailableError, BusUnavailableError):
            raise
        except TrainmasterError as error:
            return CheckEnded(check=check.check, outcome="failed", message=error.message)
        except Exception as error:  # noqa: BLE001  # whoever asked must learn of it, whatever it is
            self._told.exception("check_failed", check=check.check)
            message = f"an error of the platform ({type(error).__name__})"
            return CheckEnded(check=check.check, outcome="failed", message=message)

    async def _outcome(self, check: CheckRequested) -> CheckEnded:
        await self._log.until(lambda: self._has_its_turn(check))
        for _ in range(1 if check.idle_only else MOST_RUNS):
            run = self._run(check, await self._profiles.of_type(check.instance_type))
            if check.idle_only and not self._holdings.held().isdisjoint(self._disturbed(run)):
                break
            if await self._tried(run):
                return CheckEnded(check=check.check, outcome="finished")
        if check.idle_only:
            return CheckEnded(check=check.check, outcome="cancelled", message="a job got one of its nodes")
        message = f"jobs got nodes of it {MOST_RUNS} times while they were tested; ask for fewer nodes, or later"
        return CheckEnded(check=check.check, outcome="failed", message=message)

    async def _tried(self, run: _Run) -> bool:
        """Whether it came to its end; False where a job got one of the nodes that were being tested."""
        async with self._leases.held(run.machines, run.check.check) as lost:
            token, in_use = run.subject.session, tuple(sorted(run.subject.in_use))
            await self._log.put(CheckStarted(check=run.check.check, run=token, in_use=in_use))
            waits = {"job": self._holdings.placed_on(self._disturbed(run)), "lost": lost.wait()}
            try:
                examination = await unless(waits, self._procedure.run(run.subject, _always))
            except CutShortError as cut:
                if cut.by == "job":
                    return False
                raise UnavailableError(f"check {run.check.check} is left to another instance") from cut
            await self._record(run, examination)
        return True

    async def _record(self, run: _Run, examination: Examination) -> None:
        """All parts are made before the first is on record: none is to be compared with another as an earlier value."""
        nodes, now = run.subject.nodes, self._clock.now()
        before, count = self._ledger.book.known(nodes, run.occasion.began), len(nodes)
        findings = [examination.finding(node) for node in nodes]
        parts = [part_of(examination, each, run.occasion, before, node_count=count, now=now) for each in findings]
        for finding, part in zip(findings, parts, strict=True):
            await self._ledger.take(finding, part)

    def _run(self, check: CheckRequested, profile: Profile) -> _Run:
        reported = {node: self._reported(node) for node in check.nodes}
        names = {node: each.name or node for node, each in reported.items()}
        ids = {name: node for node, name in names.items()} | {node: node for node in names}
        subject = Subject(
            session=f"{check.check}-{secrets.token_hex(_RUN_BYTES)}",
            nodes=tuple(sorted(reported)),
            machines={node: self._ledger.book.machine(node) for node in reported},
            devices={node: each.devices for node, each in reported.items()},
            in_use=self._holdings.held() & reported.keys(),
            names=names,
            injections=read_injections(check.inject, ids),
            thorough=check.thorough,
            profiles=dict.fromkeys(reported, profile),
            deep=check.deep,
        )
        began = self._clock.now()
        occasion = Occasion(check.check, check.cluster, began, names, injected=subject.injected)
        return _Run(check, subject, occasion)

    def _has_its_turn(self, check: CheckRequested) -> bool:
        """Whether none that was asked for earlier wants one of its machines."""
        machine = self._ledger.book.machine
        own = set(map(machine, check.nodes))
        return all(own.isdisjoint(map(machine, each.requested.nodes)) for each in self._log.checks.before(check.check))

    def _disturbed(self, run: _Run) -> frozenset[str]:
        """Nodes on which a job would feel the tests: a check of idle nodes keeps off whole machines."""
        if not run.check.idle_only:
            return run.under_load
        book, machines = self._ledger.book, set(run.subject.machines.values())
        return frozenset(node for node in book.pages if book.machine(node) in machines)

    def _reported(self, node: str) -> NodeReported:
        page = self._ledger.book.pages.get(node)
        if page is None or page.reported is None:
            raise NotFoundError("node", node)
        return page.reported


async def _always() -> bool:
    return True
