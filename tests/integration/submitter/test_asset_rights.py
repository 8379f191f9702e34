"""Owned, shared and public assets of every kind: who may name them in a job, and what others learn of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shared.bus import Bus
from tests.support.catalog import group
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission, submitting


@dataclass(frozen=True)
class Case:
    """One kind: what its spec says, who makes it, and where a job names it."""

    kind: str
    plural: str
    spec: dict[str, Any]
    place: str
    reference: dict[str, Any]
    code: str
    maker: str = "ann"

    def document(self, name: str, **access: Any) -> dict[str, Any]:
        spec = {**self.spec, "access": access}
        return {"apiVersion": "trainmaster/v1", "kind": self.kind, "metadata": {"name": name}, "spec": spec}

    def job(self, name: str) -> dict[str, Any]:
        key = "ref" if self.kind == "Image" else "source"
        value = {**self.reference, key: name}
        return changed(small_job_document(), f"/spec/{self.place}", [value] if self.place == "mounts" else value)


def mount(kind: str) -> dict[str, Any]:
    return {"type": kind, "readOnly": True}


DATA = {"uri": "file:///data/team/x"}
CASES = [
    Case("Storage", "storages", {"uri": "file:///data/s"}, "mounts", mount("storage"), "unknown-storage", "root"),
    Case("Dataset", "datasets", DATA, "mounts", mount("dataset"), "unknown-dataset"),
    Case("Model", "models", DATA, "mounts", mount("model"), "unknown-model"),
    Case("Image", "images", {"address": "x.example/y:1"}, "image", {"source": "shared"}, "unknown-shared-image"),
    Case("CodeSet", "code-sets", {"inline": {"a": "b"}}, "code", {}, "unknown-code-set"),
    Case("CodeSet", "code-sets", {"git": {"url": "https://x.example/y"}}, "code", {}, "unknown-code-set"),
]


def names(case: Case) -> str:
    return case.kind + ("-git" if "git" in case.spec else "")


async def make(submission: Submission, case: Case, **access: Any) -> None:
    client = submission.client(case.maker, admin=case.maker == "root")
    path = f"/v1/assets/{case.plural}/hidden-name"
    assert (await client.put(path, json=case.document("hidden-name", **access))).status_code in (200, 201)


@pytest.mark.parametrize("case", CASES, ids=names)
async def test_a_foreign_private_asset_cannot_be_told_from_none(submission: Submission, case: Case) -> None:
    await make(submission, case)
    bob = submission.client("bob")
    foreign = (await bob.post("/v1/jobs", json=case.job("hidden-name"))).json()["errors"]
    missing = (await bob.post("/v1/jobs", json=case.job("another-one"))).json()["errors"]
    assert [error["code"] for error in foreign] == [case.code]
    assert [
        {**error, "message": error["message"].replace("hidden-name", "another-one")} for error in foreign
    ] == missing
    assert (await bob.get(f"/v1/assets/{case.plural}/hidden-name")).status_code == 404
    assert "hidden-name" not in (await bob.get(f"/v1/assets/{case.plural}")).text
    assert (await bob.delete(f"/v1/assets/{case.plural}/hidden-name")).status_code == 404


@pytest.mark.parametrize("access", [{"public": True}, {"users": ["bob"]}, {"groups": ["team"]}])
@pytest.mark.parametrize("case", CASES, ids=names)
async def test_a_shared_or_public_asset_is_used_and_not_changed(
    submission: Submission, case: Case, access: dict[str, Any]
) -> None:
    await submission.keep(group("team", "bob"))
    await make(submission, case, **access)
    bob = submission.client("bob")
    path = f"/v1/assets/{case.plural}/hidden-name"
    assert (await bob.get(path)).status_code == 200
    assert (await bob.post("/v1/jobs", json=case.job("hidden-name"))).status_code == 201
    assert (await bob.put(path, json=case.document("hidden-name"))).status_code == 403
    assert (await bob.delete(path)).status_code == 403


@pytest.mark.parametrize("case", CASES, ids=names)
async def test_what_is_shared_no_more_is_used_no_more(submission: Submission, case: Case) -> None:
    await make(submission, case, users=["bob"])
    await make(submission, case)
    answer = await submission.client("bob").post("/v1/jobs", json=case.job("hidden-name"))
    assert [error["code"] for error in answer.json()["errors"]] == [case.code]


async def test_a_bucket_is_named_only_inside_of_a_storage_that_one_may_use(bus: Bus, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x")
    s3 = {"s3_key_id": "x", "s3_secret_key_file": tmp_path / "key"}
    async with submitting(bus, tmp_path / "home", **s3) as submission:
        ann, root = submission.client("ann"), submission.client("root", admin=True)
        storage = Case("Storage", "storages", {"uri": "s3://team-bucket/open"}, "mounts", mount("storage"), "")
        assert (await ann.put("/v1/assets/storages/s", json=storage.document("s"))).status_code == 403
        assert (await root.put("/v1/assets/storages/s", json=storage.document("s", users=["ann"]))).status_code == 201
        for uri, status in (("s3://team-bucket/open/x", 201), ("s3://team-bucket/other", 422), ("s3://elsewhere", 422)):
            dataset = Case("Dataset", "datasets", {"uri": uri}, "mounts", mount("dataset"), "")
            assert (await ann.put("/v1/assets/datasets/d", json=dataset.document("d"))).status_code == status
        made = await ann.post("/v1/jobs", json=dataset.job("d") | {"metadata": {"name": "one"}})
        kept = await submission.bus.load_job(made.json()["metadata"]["id"])
        assert kept.submitted.resolved.mounts[0].uri == "s3://team-bucket/open/x"
        below = changed(dataset.job("d"), "/spec/mounts/0/subPath", "deep/er")
        made = await ann.post("/v1/jobs", json=below)
        kept = await submission.bus.load_job(made.json()["metadata"]["id"])
        assert kept.submitted.resolved.mounts[0].uri == "s3://team-bucket/open/x/deep/er"
