"""Git code sets over HTTP: what a job that names one is resolved to, and on whose behalf."""

from __future__ import annotations

from typing import Any

import pytest

from shared.events import CodeResolved, ResolvedCode
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission

PATH = "/v1/assets/code-sets/trainer"
URL = "https://git.example/team/code.git"


def code_set(git: dict[str, Any], **access: Any) -> dict[str, Any]:
    spec = {"git": git, "access": access}
    return {"apiVersion": "trainmaster/v1", "kind": "CodeSet", "metadata": {"name": "trainer"}, "spec": spec}


def job(revision: str | None = None) -> dict[str, Any]:
    code = {"source": "trainer"} | ({"revision": revision} if revision else {})
    return changed(small_job_document(), "/spec/code", code)


async def make_secret(submission: Submission, owner: str) -> None:
    body = {"apiVersion": "trainmaster/v1", "kind": "Secret", "metadata": {"name": "token"}, "spec": {"value": "x"}}
    assert (await submission.client(owner).put("/v1/assets/secrets/token", json=body)).status_code == 201


async def test_a_job_of_somebody_else_reads_it_on_behalf_of_its_owner(submission: Submission) -> None:
    await make_secret(submission, "ann")
    git = {"url": URL, "secret": "token", "username": "bot"}
    assert (await submission.client("ann").put(PATH, json=code_set(git, users=["bob"]))).status_code == 201
    made = await submission.client("bob").post("/v1/jobs", json=job("feature/x"))
    kept = await submission.bus.load_job(made.json()["metadata"]["id"])
    assert kept.submitted.resolved.code == ResolvedCode(
        kind="git", uri=URL, revision="feature/x", username="bot", secret="token", owner="ann"
    )


async def test_a_repository_on_this_machine_lies_in_a_storage(submission: Submission) -> None:
    ann = submission.client("ann")
    assert (await ann.put(PATH, json=code_set({"url": "file:///data/team/code"}))).status_code == 201
    kept = await submission.bus.load_job((await ann.post("/v1/jobs", json=job())).json()["metadata"]["id"])
    assert kept.submitted.resolved.code == ResolvedCode(
        kind="git", uri="file:///data/team/code", root="file:///data/team"
    )


async def test_a_secret_is_one_that_the_owner_may_use(submission: Submission) -> None:
    await make_secret(submission, "ann")
    refused = await submission.client("bob").put(PATH, json=code_set({"url": URL, "secret": "token"}))
    assert [(error["pointer"], error["code"]) for error in refused.json()["errors"]] == [
        ("/spec/git/secret", "unknown-secret")
    ]
    local = code_set({"url": "file:///data/team/code", "secret": "token"})
    refused = await submission.client("ann").put(PATH, json=local)
    assert [error["code"] for error in refused.json()["errors"]] == ["secret-not-used"]


@pytest.mark.parametrize("revision", ["-x", "a..b", "a b", "x.lock", "x/", "@{1}", "a//b", "$(id)"])
async def test_what_cannot_be_a_revision_is_refused(submission: Submission, revision: str) -> None:
    ann = submission.client("ann")
    await ann.put(PATH, json=code_set({"url": URL}))
    answer = await ann.post("/v1/jobs", json=job(revision))
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [
        ("/spec/code/revision", "revision-invalid")
    ]


async def test_an_attempt_tells_the_commit_that_it_ran(submission: Submission) -> None:
    ann = submission.client("ann")
    await ann.put(PATH, json=code_set({"url": URL}))
    made = (await ann.post("/v1/jobs", json=job("main"))).json()
    job_id = made["metadata"]["id"]
    assert made["status"]["attempts"][0]["code"] == {"kind": "git", "uri": URL, "digest": None, "revision": None}
    await submission.observe(job_id, CodeResolved(uri=URL, revision="0" * 40))
    shown = (await ann.get(f"/v1/jobs/{job_id}")).json()
    assert shown["status"]["attempts"][0]["code"]["revision"] == "0" * 40
