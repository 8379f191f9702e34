"""What a TensorBoard shows: which jobs, attempts and directory, under which names; pure.

A *board* is one TensorBoard. Its id follows from what it shows: whoever asks for the same gets the same one, and its
address outlives a restart. Runs are called by attempt, and an attempt that is a restart says after what:
`attempt-1`, `attempt-2-after-hang`; over several jobs the job's name stands before that.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.jobs import Attempt, Job
from shared.logs_wire import ReplicaRef

_ID_CHARS: Final = 20
DIRECTORY_RUN: Final = "records"


@dataclass(frozen=True, slots=True)
class BoardSpec:
    """Ids of jobs, attempts (none: all), and a path in the replicas of the one job."""

    jobs: tuple[str, ...]
    attempts: frozenset[int] = frozenset()
    directory: str | None = None

    @property
    def id(self) -> str:
        """Its part in addresses."""
        text = json.dumps([self.jobs, sorted(self.attempts), self.directory])
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        return "tb-" + base64.b32encode(digest).decode().lower()[:_ID_CHARS]

    @property
    def prefix(self) -> str:
        """Where it stands in the API, without a slash at the end."""
        return f"/v1/tensorboard/{self.id}"


@dataclass(frozen=True, slots=True)
class Root:
    """A directory of stored event files: one generation of those of a replica."""

    replica: ReplicaRef
    generation: int
    path: Path


@dataclass(frozen=True, slots=True)
class Run:
    """A directory under the name that TensorBoard shows."""

    name: str
    job: str
    attempt: int
    path: Path


def runs_of(jobs: Sequence[Job], attempts: frozenset[int], roots: Mapping[str, Sequence[Root]]) -> tuple[Run, ...]:
    """The runs of a board, by the stored directories of each job."""
    names = _names_of(jobs)
    runs = (run for job in jobs for run in _runs_of_job(job, names[job.id], attempts, roots.get(job.id, ())))
    return tuple(runs)


def _runs_of_job(job: Job, name: str, attempts: frozenset[int], roots: Iterable[Root]) -> Iterator[Run]:
    wanted = [root for root in roots if not attempts or root.replica.attempt in attempts]
    for root in sorted(wanted, key=lambda root: (root.replica, root.generation)):
        number = root.replica.attempt
        same_attempt = {other.replica for other in wanted if other.replica.attempt == number}
        parts = [name, _attempt_name(job, number)]
        if len(same_attempt) > 1:
            parts.append(f"{root.replica.role}-{root.replica.index}")
        last = parts.pop() + (f"-rewritten-{root.generation}" if root.generation > 1 else "")
        yield Run("/".join(part for part in (*parts, last) if part), job.id, number, root.path)


def _attempt_name(job: Job, number: int) -> str:
    """`attempt-2-after-hang`: the number, and why there was another attempt."""
    before = next((attempt for attempt in job.attempts if attempt.number == number - 1), None)
    return f"attempt-{number}{_after(before)}"


def _after(before: Attempt | None) -> str:
    return f"-after-{before.ended.reason}" if before is not None and before.ended is not None else ""


def _names_of(jobs: Sequence[Job]) -> dict[str, str]:
    """What each job is called in the names of runs; nothing where there is but one."""
    if len(jobs) == 1:
        return {jobs[0].id: ""}
    names = [job.name for job in jobs]
    return {job.id: f"{job.name}-{job.id}" if _is_awkward(job.name, names) else job.name for job in jobs}


def _is_awkward(name: str, names: Sequence[str]) -> bool:
    return name.startswith(".") or names.count(name) > 1
