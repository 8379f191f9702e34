"""The queue's limit of a project at submission, who may set quotas, and what a project tells of its use."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.catalog import project
from tests.support.jobs import placed
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission


def job_of(number: int) -> dict[str, Any]:
    return changed(small_job_document(f"job-{number}"), "/metadata/project", "vision")


async def test_a_job_that_is_one_too_many_in_the_queue_is_refused_in_numbers(submission: Submission) -> None:
    await submission.keep(project("vision", users=["ann"], quotas={"queuedJobs": 2}))
    client = submission.client()
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=job_of(number)) for number in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 422, 422, 422]
    [violation] = next(answer for answer in answers if answer.status_code == 422).json()["errors"]
    assert (violation["pointer"], violation["code"]) == ("/metadata/project", "quota-exceeded")
    assert "may have 2 queued jobs and has 2" in violation["message"]
    first = next(answer for answer in answers if answer.status_code == 201).json()["metadata"]["id"]
    await submission.tell(first, placed(1))
    shown = (await client.get("/v1/assets/projects/vision")).json()["status"]["quotas"]
    assert shown == {
        "runningReplicas": {"used": 1, "limit": None},
        "gpus": {"used": 0, "limit": None},
        "queuedJobs": {"used": 1, "limit": 2},
    }
    assert (await client.post("/v1/jobs", json=job_of(9))).status_code == 201
    assert (await client.post("/v1/jobs", json=small_job_document("elsewhere"))).status_code == 201


async def test_the_project_that_everybody_is_in_is_there_and_admins_give_it_quotas(submission: Submission) -> None:
    ann, root = submission.client(), submission.client("root", admin=True)
    path = "/v1/assets/projects/default"
    shown = await ann.get(path)
    assert shown.json()["status"]["quotas"]["queuedJobs"] == {"used": 0, "limit": None}
    assert [each["metadata"]["name"] for each in (await ann.get("/v1/assets/projects")).json()["items"]] == ["default"]
    limited = {
        "apiVersion": "trainmaster/v1",
        "kind": "Project",
        "metadata": {"name": "default"},
        "spec": {"quotas": {"queuedJobs": 0}},
    }
    assert (await ann.put(path, json=limited)).status_code == 403
    shared = await root.put(path, json=changed(limited, "/spec/members", {"users": ["ann"]}))
    assert [error["code"] for error in shared.json()["errors"]] == ["no-members"]
    assert (await root.put(path, json=limited, headers={"If-Match": shown.headers["etag"]})).status_code == 201
    refused = await ann.post("/v1/jobs", json=small_job_document())
    (error,) = refused.json()["errors"]
    assert error["code"] == "quota-exceeded"
    assert "nothing can be submitted to it" in error["message"]
    assert (await ann.delete(path)).status_code == 403
    assert (await root.delete(path)).status_code == 204
    assert (await ann.post("/v1/jobs", json=small_job_document())).status_code == 201
    assert (await ann.get(path)).status_code == 200


async def test_only_admins_set_change_and_delete_quotas(submission: Submission) -> None:
    ann, root = submission.client(), submission.client("root", admin=True)
    path = "/v1/assets/projects/vision"
    document: dict[str, Any] = {
        "apiVersion": "trainmaster/v1",
        "kind": "Project",
        "metadata": {"name": "vision"},
        "spec": {"members": {"users": ["ann"]}},
    }
    limited = changed(document, "/spec/quotas", {"gpus": 8})
    refused = await ann.put(path, json=limited)
    assert [error["code"] for error in refused.json()["errors"]] == ["admins-only"]
    assert (await ann.put(path, json=document)).status_code == 201
    assert (await root.put(path, json=limited)).status_code == 200
    assert (await ann.put(path, json=document)).status_code == 422
    assert (await ann.put(path, json=changed(limited, "/spec/description", "ours"))).status_code == 200
    assert (await ann.delete(path)).status_code == 403
    wrong = await root.put(path, json=changed(document, "/spec/quotas", {"gpus": -1}))
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/spec/quotas/gpus"]
    assert (await root.delete(path)).status_code == 204
