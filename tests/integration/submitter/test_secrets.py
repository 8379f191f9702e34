"""Secrets over HTTP: values go in and never come out; who may use them is asked at the submission of a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shared.bus.streams import SECRETS_BUCKET
from shared.catalog import Secret
from shared.vault import Keyring, Vault
from tests.support.catalog import group
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission

NAME = "hf"
VALUE = "hunter2-the-plaintext"
PATH = "/v1/assets/secrets/hf"


def document(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "trainmaster/v1", "kind": "Secret", "metadata": {"name": "hf"}, "spec": spec}


def job(secret: str = NAME) -> dict[str, Any]:
    return changed(small_job_document(), "/spec/secrets", {"HF_TOKEN": secret})


Reveal = Callable[[], Awaitable[str | None]]


@pytest.fixture
def revealed(submission: Submission, tmp_path: Path) -> Reveal:
    """The value that is kept, opened with the key file of the submitter."""
    vault = Vault(submission.bus, Keyring.load((tmp_path / "home" / "secret-keys.json").read_text()))
    return lambda: vault.reveal(Secret.id_of("hf"))


async def test_a_value_is_kept_sealed_and_no_answer_ever_has_it(submission: Submission, revealed: Reveal) -> None:
    ann, root = submission.client("ann"), submission.client("root", admin=True)
    answers = [await ann.put(PATH, json=document(value=VALUE, description="for the hub"))]
    answers += [await client.get(path) for client in (ann, root) for path in (PATH, "/v1/assets/secrets")]
    submitted = await ann.post("/v1/jobs", json=job())
    job_path = f"/v1/jobs/{submitted.json()['metadata']['id']}"
    answers += [submitted, await ann.get(job_path), await ann.get(f"{job_path}/events")]
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200, 201, 200, 200]
    assert not any("hunter2" in answer.text for answer in answers)
    assert await revealed() == VALUE
    bucket = await submission.bus.js.key_value(SECRETS_BUCKET)
    assert b"hunter2" not in ((await bucket.get(Secret.id_of("hf"))).value or b"")


async def test_a_new_value_replaces_the_old_and_moves_the_time_of_change(
    submission: Submission, revealed: Reveal
) -> None:
    ann = submission.client("ann")
    first = await ann.put(PATH, json=document(value="old"))
    second = await ann.put(PATH, json=document(value="new"))
    assert await revealed() == "new"
    assert second.json()["metadata"]["updatedAt"] > first.json()["metadata"]["updatedAt"]
    assert second.json()["metadata"]["createdAt"] == first.json()["metadata"]["createdAt"]


async def test_what_was_read_can_be_applied_again_and_keeps_the_value(submission: Submission, revealed: Reveal) -> None:
    ann = submission.client("ann")
    read = await ann.put(PATH, json=document(value=VALUE))
    shared = await ann.put(PATH, json=changed(read.json(), "/spec/access", {"users": ["bob"]}))
    assert shared.status_code == 200
    assert await revealed() == VALUE


async def test_a_deleted_secret_leaves_no_value(submission: Submission, revealed: Reveal) -> None:
    ann = submission.client("ann")
    await ann.put(PATH, json=document(value=VALUE))
    assert (await ann.delete(PATH)).status_code == 204
    assert await revealed() is None


@pytest.mark.parametrize(
    ("spec", "pointer", "code"),
    [
        ({}, "/spec/value", "required"),
        ({"value": ""}, "/spec/value", "secret-length"),
        ({"value": "hunter2" * 10_000}, "/spec/value", "secret-length"),
        ({"value": "hunter2\0"}, "/spec/value", "nul-character"),
        ({"value": ["hunter2"]}, "/spec/value", "wrong-type"),
        ({"value": "x", "access": {"public": True}}, "/spec/access/public", "unknown-key"),
        ({"value": "x", "access": {"users": ["nobody"]}}, "/spec/access/users/0", "unknown-user"),
    ],
)
async def test_a_wrong_secret_is_refused_without_showing_it(
    submission: Submission, spec: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await submission.client().put(PATH, json=document(**spec))
    assert answer.status_code == 422
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
    assert "hunter2" not in answer.text


async def test_a_foreign_secret_looks_like_none_at_all(submission: Submission) -> None:
    ann, bob, root = submission.client("ann"), submission.client("bob"), submission.client("root", admin=True)
    await ann.put(PATH, json=document(value=VALUE))
    foreign, missing = [(await bob.post("/v1/jobs", json=job(name))).json() for name in ("hf", "hg")]
    assert foreign["errors"][0]["message"].replace("hf", "hg") == missing["errors"][0]["message"]
    assert [(error["pointer"], error["code"]) for error in foreign["errors"]] == [
        ("/spec/secrets/HF_TOKEN", "unknown-secret")
    ]
    assert (await bob.get(PATH)).status_code == 404
    # An admin sees that it is there and may delete it, but has no job of theirs read it.
    assert (await root.get(PATH)).status_code == 200
    assert (await root.post("/v1/jobs", json=job())).status_code == 422


@pytest.mark.parametrize("access", [{"users": ["bob"]}, {"groups": ["team"]}])
async def test_a_shared_secret_is_used_by_those_it_is_shared_with(
    submission: Submission, access: dict[str, Any]
) -> None:
    ann, bob = submission.client("ann"), submission.client("bob")
    await submission.keep(group("team", "bob"))
    await ann.put(PATH, json=document(value=VALUE, access=access))
    assert (await bob.post("/v1/jobs", json=job())).status_code == 201
    assert (await bob.put(PATH, json=document(value="mine"))).status_code == 403


async def test_a_variable_is_set_in_one_place_only(submission: Submission) -> None:
    ann = submission.client("ann")
    await ann.put(PATH, json=document(value=VALUE))
    answer = await ann.post("/v1/jobs", json=changed(job(), "/spec/env", {"HF_TOKEN": "x"}))
    assert [error["code"] for error in answer.json()["errors"]] == ["variable-twice"]
