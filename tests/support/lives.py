"""One job living through `next_step` without I/O: a record, a pretend engine that obeys, and a clock moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.scheduler.domain.progress import Refusal
from services.scheduler.domain.reconcile import (
    Append,
    Replace,
    Report,
    RequestDiagnosis,
    SaveData,
    Situation,
    StartGang,
    StopGang,
    next_step,
)
from services.scheduler.domain.replacing import Replacement
from services.scheduler.domain.terms import Terms
from shared import events as ev
from shared.events import Event, ReplicaExit
from shared.jobs import Job, JobState, Recorded, Replica, fold, replica_key
from tests.support.jobs import START, role, submitted

JOB = "tj-aaaaaaaaaaaa"


@dataclass
class PretendEngine:
    """What an engine would hold about one gang; it survives the scheduler."""

    known: bool = False
    stopping: bool = False
    replicas: dict[str, Replica] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)


@dataclass
class Life:
    """A job with two replicas unless said otherwise; `look` takes decisions until there are none left."""

    spec: dict = field(default_factory=dict)
    roles: tuple[tuple[str, int], ...] = (("worker", 2),)
    now: datetime = START
    engine: PretendEngine = field(default_factory=PretendEngine)
    record: list[Recorded] = field(default_factory=list)
    actions: list[object] = field(default_factory=list)
    refuses: str = ""
    unsaved: bool = False
    save_problem: str = ""
    replacement: Replacement | None = None

    def __post_init__(self):
        self.restart()
        self.job: Job | None = None
        roles = [
            {"name": name, "replicas": n, "instanceType": "cpu-small", "command": "true"} for name, n in self.roles
        ]
        resolved = ev.Resolved(cluster="main", roles=tuple(role(name) for name, _ in self.roles))
        made = submitted()
        self.tell(made.model_copy(update={"spec": {**made.spec, **self.spec, "roles": roles}, "resolved": resolved}))

    # --- what happens to the job

    def tell(self, payload: ev.Payload, at: datetime | None = None, attempt: int = 1) -> None:
        event = Event.of(
            payload, job=JOB, attempt=attempt, time=at or self.now, owner="u", project="p", part=str(len(self.record))
        )
        recorded = Recorded(len(self.record) + 1, "", event)
        self.job = fold(self.job, recorded)
        self.record.append(recorded)

    def place(self, *, diagnosing: bool = False) -> Life:
        roles = tuple(
            ev.RolePlacement(role=name, pool="p-public", nodes=("n-1",), node_of=(0,) * count)
            for name, count in self.roles
        )
        self.tell(ev.Placed(cluster="main", roles=roles, diagnosing=diagnosing))
        return self

    def restart(self) -> None:
        """The scheduler dies and comes back: what it kept in memory is gone."""
        self.start_called = self.stop_called = self.save_called = False
        self.reported_at = None
        self.refusal = None

    def wait(self, seconds: float) -> Life:
        self.now += timedelta(seconds=seconds)
        return self

    # --- what the engine does

    def starts(self, name: str = "worker", index: int = 0) -> Life:
        key = replica_key(name, index)
        if self.engine.known and not self.engine.stopping and self.engine.replicas[key].started_at is None:
            self._set(key, started_at=self.now)
        return self

    def exits(self, name: str = "worker", index: int = 0, code: int = 0, **how) -> Life:
        key = replica_key(name, index)
        replica = self.engine.replicas.get(key)
        if replica and replica.started_at and replica.exit is None:
            fields = {"code": code, **how}
            self._set(key, ended_at=self.now, exit=ReplicaExit(**fields))
        return self

    def obeys_stop(self) -> Life:
        for key, replica in self.engine.replicas.items():
            if self.engine.stopping and replica.exit is None:
                end = (
                    ReplicaExit(signal=15, cause="stopped")
                    if replica.started_at
                    else ReplicaExit(cause="never-started")
                )
                self._set(key, ended_at=self.now, exit=end)
        return self

    def loses_the_gang(self) -> Life:
        self.engine = PretendEngine()
        return self

    def saves(self, problem: str = "") -> Life:
        self.unsaved = self.save_called = False
        self.save_problem = problem
        return self

    def _set(self, key: str, **changes) -> None:
        self.engine.replicas[key] = self.engine.replicas[key].model_copy(update=changes)

    # --- what the scheduler does

    def situation(self) -> Situation:
        seen = self.engine.replicas if self.engine.known else None
        return Situation(
            self.job,
            Terms.of(self.job),
            seen,
            self.start_called,
            self.stop_called,
            self.reported_at,
            self.refusal,
            self.unsaved,
            self.save_called,
            self.save_problem,
            replacement=self.replacement
            if self.job.state is JobState.DIAGNOSING and self.job.attempt.diagnosis
            else None,
        )

    def look(self) -> Life:
        for _ in range(10):
            step = next_step(self.situation(), self.now)
            if not step.actions:
                self.look_again_at = step.look_again_at
                return self
            for action in step.actions:
                self.actions.append(action)
                self._do(action)
        raise AssertionError(f"the decisions do not settle: {self.actions[-5:]}")

    def _do(self, action) -> None:
        match action:
            case Append(facts):
                for fact in facts:
                    self.tell(fact.payload, fact.at, fact.attempt)
            case Report(changes):
                self.reported_at = self.now
                self.tell(ev.ReplicasChanged(changes=changes))
            case RequestDiagnosis(nodes, only, number):
                self.tell(ev.DiagnosisRequested(nodes=nodes, only=only, round=number))
            case Replace(found, reason):
                self.replacement = None
                self.tell(found.event(self.job.submitted.resolved, {}, reason))
            case StartGang():
                self._start()
            case SaveData():
                self.save_called = True
            case StopGang():
                self.stop_called = True
                self.engine.stopping = self.engine.known
                self.start_called = self.start_called and self.engine.known

    def _start(self) -> None:
        self.engine.starts.append(f"{JOB}-{self.job.attempt.number}")
        if self.refuses:
            self.refusal = Refusal(self.now, self.refuses)
        else:
            self.engine.known = self.start_called = True
            self.engine.replicas = {
                key: self.engine.replicas.get(key, replica) for key, replica in self.job.attempt.replicas.items()
            }

    # --- what came of it

    @property
    def told(self) -> list[str]:
        return [recorded.event.data.SUFFIX for recorded in self.record]

    def called(self, kind: type) -> int:
        return sum(isinstance(action, kind) for action in self.actions)
