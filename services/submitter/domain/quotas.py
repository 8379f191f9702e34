"""How much the jobs of a project have now, beside the quotas that admins set for it.

Running replicas and GPUs are held back by the scheduler; a job that would be one too many in the queue is refused at
its submission. Jobs count as queued until they are placed, those that wait for another attempt included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shared.catalog import Project
from shared.documents.fields import shown
from shared.errors import InvalidInputError, Violation
from shared.jobs import Job, JobState

_WAITING = frozenset({JobState.QUEUED, JobState.RETRYING})


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """What the jobs of one project have."""

    running_replicas: int = 0
    gpus: int = 0
    queued_jobs: int = 0

    def document(self, project: Project) -> dict[str, Any]:
        """The use beside the limits, as `status` of the project."""
        limits = project.spec.quotas
        rows = {
            "runningReplicas": (self.running_replicas, limits and limits.running_replicas),
            "gpus": (self.gpus, limits and limits.gpus),
            "queuedJobs": (self.queued_jobs, limits and limits.queued_jobs),
        }
        return {name: {"used": used, "limit": limit} for name, (used, limit) in rows.items()}


def use_of(project: str, live: Iterable[Job]) -> ProjectUse:
    """What the project's jobs have, given all live jobs."""
    jobs = [job for job in live if job.project == project]
    holding = [job for job in jobs if job.attempt.placement is not None and job.attempt.ended is None]
    return ProjectUse(
        running_replicas=sum(len(job.attempt.replicas) for job in holding),
        gpus=sum(_gpus(job) for job in holding),
        queued_jobs=sum(job.state in _WAITING for job in jobs),
    )


def _gpus(job: Job) -> int:
    of_role = {role.name: role.gpu_count for role in job.submitted.resolved.roles}
    return sum(of_role.get(replica.role, 0) for replica in job.attempt.replicas.values())


def queue_limit(project: Project | None) -> int | None:
    """How many queued jobs the project may have; None has no limit."""
    return project.spec.quotas.queued_jobs if project is not None and project.spec.quotas is not None else None


def check_queue(project: str, limit: int, live: Iterable[Job]) -> None:
    """Raise InvalidInputError where one more job would be too many in the project's queue."""
    queued = use_of(project, live).queued_jobs
    if queued >= limit:
        sentence = f"project {shown(project)} may have {limit} queued jobs and has {queued}; {_way_out(limit)}"
        raise InvalidInputError((Violation("/metadata/project", "quota-exceeded", sentence),))


def _way_out(limit: int) -> str:
    if not limit:
        return "nothing can be submitted to it; give another project, or ask an admin for more"
    return "submit this when one of them has been placed, stop one, or ask an admin for more"
