"""What runs are called, and which board shows what."""

from __future__ import annotations

from pathlib import Path

from services.logs.tensorboard.boards import BoardSpec, Root, runs_of
from shared import events as ev
from shared.jobs import Job
from shared.logs_wire import ReplicaRef
from tests.support.jobs import job_after, placed


def job_with(*payloads: ev.Payload, name: str = "demo", job_id: str = "tj-aaaaaaaaaaaa") -> Job:
    found = job_after(*payloads)
    submitted = found.submitted.model_copy(update={"name": name})
    return found.model_copy(update={"id": job_id, "submitted": submitted})


def root(
    attempt: int, *, job: str = "tj-aaaaaaaaaaaa", role: str = "worker", index: int = 0, generation: int = 1
) -> Root:
    return Root(
        ReplicaRef(job, attempt, role, index), generation, Path(f"/{job}/{attempt}/{role}/{index}/{generation}")
    )


def names(*jobs: Job, attempts: frozenset[int] = frozenset(), **roots: list[Root]) -> list[str]:
    by_job = {job.id: roots[f"job{number}"] for number, job in enumerate(jobs, 1)}
    return [run.name for run in runs_of(jobs, attempts, by_job)]


def test_an_attempt_that_is_a_restart_says_after_what():
    job = job_with(placed(), ev.Started(), ev.AttemptEnded(reason="hang"), ev.RetryDecided(retry=True, reason="hang"))
    assert names(job, job1=[root(1), root(2)]) == ["attempt-1", "attempt-2-after-hang"]


def test_attempts_can_be_chosen():
    assert names(job_with(), job1=[root(1), root(2)], attempts=frozenset({2})) == ["attempt-2"]


def test_several_jobs_stand_under_their_names_and_namesakes_under_their_ids_too():
    first, second, third = (job_with(name=name, job_id=f"tj-{name}-{number}") for number, name in enumerate("aab"))
    found = names(
        first, second, third, **{f"job{i}": [root(1, job=job.id)] for i, job in enumerate((first, second, third), 1)}
    )
    assert found == ["a-tj-a-0/attempt-1", "a-tj-a-1/attempt-1", "b/attempt-1"]


def test_a_name_of_dots_is_no_way_out_of_the_directory():
    first, second = job_with(name="..", job_id="tj-x"), job_with(name="b", job_id="tj-y")
    found = names(first, second, job1=[root(1, job="tj-x")], job2=[])
    assert found == ["..-tj-x/attempt-1"]


def test_several_replicas_with_records_and_files_written_anew_have_runs_of_their_own():
    roots = [root(1), root(1, generation=2), root(1, index=1)]
    assert names(job_with(), job1=roots) == [
        "attempt-1/worker-0",
        "attempt-1/worker-0-rewritten-2",
        "attempt-1/worker-1",
    ]


def test_the_same_request_is_the_same_board():
    one = BoardSpec(("tj-a",), frozenset({1, 2}), "/mnt")
    assert one.id == BoardSpec(("tj-a",), frozenset({2, 1}), "/mnt").id
    others = {BoardSpec(("tj-a",)).id, BoardSpec(("tj-b",)).id, BoardSpec(("tj-a",), frozenset({1})).id, one.id}
    assert len(others) == 4
    assert one.prefix == f"/v1/tensorboard/{one.id}"
