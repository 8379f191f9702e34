"""What ended attempts of a job left on their machines, for those who want to find out why they failed."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.handlers.standings import StandingHandlers
from services.scheduler.ports import Engine, KeptSandbox
from shared.auth.principal import Principal


@dataclass(frozen=True, slots=True)
class SandboxHandlers:
    """The use cases about sandboxes."""

    engine: Engine
    standings: StandingHandlers

    def kept(self, principal: Principal, reference: str) -> tuple[KeptSandbox, ...]:
        """What is held of the job's ended attempts, in their order; raises NotFoundError or ConflictError."""
        job = self.standings.find(principal, reference)
        return tuple(sorted(self.engine.kept(job.id), key=lambda kept: kept.attempt))
