"""Which nodes jobs hold now, from the read model of jobs."""

from __future__ import annotations

from shared.jobs import HOLDING
from shared.readmodel import JobReadModel


class JobHoldings:
    """Knows who works where."""

    def __init__(self, jobs: JobReadModel) -> None:
        self._jobs = jobs

    def held(self, but: str = "") -> frozenset[str]:
        """Nodes that a job holds, but for the job with this id."""
        placements = (
            job.attempt.placement
            for job in self._jobs.live()
            if job.state in HOLDING and job.id != but and job.attempt.placement is not None
        )
        return frozenset(node for placement in placements for role in placement.roles for node in role.nodes)
