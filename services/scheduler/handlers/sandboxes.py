"""Looking into sandboxes: what failed attempts left in them, and commands run in those of running replicas."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from services.scheduler.handlers.standings import StandingHandlers
from services.scheduler.ports.engine import Engine
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput, ExecRefusedError, Execution, KeptSandbox
from shared.auth.principal import Principal
from shared.errors import ForbiddenError, TooManyRequestsError
from shared.ids import gang_id
from shared.jobs import Job, JobState, Replica

EXECS_MAX: Final = 16
_SHOWN_MAX: Final = 500
_RUNS_NOTHING: Final = frozenset({JobState.QUEUED, JobState.DIAGNOSING, JobState.DECIDING, JobState.RETRYING})


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command, and the replica in whose sandbox to run it: of the first role, and the first of its replicas."""

    command: tuple[str, ...]
    role: str | None = None
    index: int = 0
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SandboxHandlers:
    """The use cases about sandboxes."""

    engine: Engine
    standings: StandingHandlers
    running: set[int] = field(default_factory=set)

    def kept(self, principal: Principal, reference: str) -> tuple[KeptSandbox, ...]:
        """What is held of the job's ended attempts, in their order; raises NotFoundError or ConflictError."""
        job = self.standings.find(principal, reference)
        return tuple(sorted(self.engine.kept(job.id), key=lambda kept: kept.attempt))

    async def execute(
        self, principal: Principal, reference: str, request: ExecRequest
    ) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """What the command writes, and its end; raises ForbiddenError, ExecRefusedError and others before it starts."""
        job = self.standings.find(principal, reference)
        if not (principal.admin or principal.user_id == job.owner):
            raise ForbiddenError(
                f"job {job.id} belongs to {job.submitted.owner_name}; only they and admins may do this"
            )
        _check_running(job)
        replica = _replica_of(job, request)
        if len(self.running) >= EXECS_MAX:
            raise TooManyRequestsError(f"{EXECS_MAX} commands run in sandboxes; wait for one to end", retry_after_s=5)
        number = job.attempt.number
        execution = await self.engine.execute(
            gang_id(job.id, number), replica.role, replica.index, request.command, request.limit_s
        )
        log = structlog.get_logger(service="scheduler").bind(
            job=job.id, attempt=number, role=replica.role, index=replica.index, user=principal.name
        )
        log.info("exec_started", command=shlex.join(request.command)[:_SHOWN_MAX])
        return self._followed(execution, log)

    async def _followed(
        self, execution: Execution, log: FilteringBoundLogger
    ) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        code: int | None = None
        self.running.add(id(execution))
        pieces = execution.pieces()
        try:
            async for piece in pieces:
                if isinstance(piece, ExecEnded):
                    code = piece.code
                yield piece
        finally:
            self.running.discard(id(execution))
            await pieces.aclose()
            log.info("exec_ended", code=code)


def _check_running(job: Job) -> None:
    """Raise ExecRefusedError where the job has no replica that could be running, with what would help."""
    where = "a command runs in the sandbox of a running replica"
    if job.ended:
        raise ExecRefusedError(
            f"job {job.name} has ended ({job.state}), and {where}; `trainmaster logs {job.name}` shows what it wrote, "
            "and with keepFor in its spec what a failed attempt left is held on its machine"
        )
    if job.state in _RUNS_NOTHING:
        raise ExecRefusedError(
            f"job {job.name} is {job.state}, and {where}; `trainmaster explain {job.name}` says what it waits for"
        )


def _replica_of(job: Job, request: ExecRequest) -> Replica:
    role = request.role if request.role is not None else job.submitted.resolved.roles[0].name
    replica = job.attempt.replica(role, request.index)
    if replica is None:
        there = ", ".join(list(job.attempt.replicas)[:10]) or "none yet"
        raise ExecRefusedError(
            f"attempt {job.attempt.number} of {job.name} has no replica {role}-{request.index}; there are: {there}"
        )
    return replica
