"""Assets over HTTP: ownership, sharing, locations, versions, lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from shared.bus import Bus
from tests.support.catalog import group, storage
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission, submitting


def asset(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "trainmaster/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


DATASET = asset("Dataset", "训练集@#+", uri="file:///data/team/mnist")
DATASET_PATH = "/v1/assets/datasets/" + quote("训练集@#+", safe="")


async def test_an_asset_is_made_read_changed_and_deleted_by_its_owner(submission: Submission) -> None:
    client = submission.client("ann")
    made = await client.put(DATASET_PATH, json=DATASET)
    assert made.status_code == 201
    assert made.json()["metadata"]["owner"] == "ann"
    read = await client.get(DATASET_PATH)
    assert read.json() == made.json()
    assert read.headers["etag"] == made.headers["etag"]
    same = await client.put(DATASET_PATH, json=read.json())
    assert (same.status_code, same.headers["etag"]) == (200, made.headers["etag"])
    other = await client.put(DATASET_PATH, json=changed(DATASET, "/spec/description", "digits"))
    assert other.status_code == 200
    assert other.json()["metadata"]["createdAt"] == made.json()["metadata"]["createdAt"]
    assert (await client.delete(DATASET_PATH)).status_code == 204
    assert (await client.get(DATASET_PATH)).status_code == 404
    assert (await client.put(DATASET_PATH, json=DATASET)).status_code == 201


async def test_what_is_private_is_unseen_and_what_is_shared_is_used_but_not_changed(submission: Submission) -> None:
    ann, bob = submission.client("ann"), submission.client("bob")
    await ann.put(DATASET_PATH, json=DATASET)
    assert (await bob.get(DATASET_PATH)).status_code == 404
    assert (await bob.get("/v1/assets/datasets")).json()["items"] == []
    assert (await bob.put(DATASET_PATH, json=DATASET)).status_code == 409
    assert (await bob.delete(DATASET_PATH)).status_code == 404

    await ann.put(DATASET_PATH, json=changed(DATASET, "/spec/access", {"users": ["bob"]}))
    assert (await bob.get(DATASET_PATH)).status_code == 200
    assert (await bob.put(DATASET_PATH, json=DATASET)).status_code == 403
    assert (await bob.delete(DATASET_PATH)).status_code == 403
    root = submission.client("root", admin=True)
    kept = await root.put(DATASET_PATH, json=changed(DATASET, "/spec/access", {"public": True}))
    assert kept.json()["metadata"]["owner"] == "ann"


async def test_a_foreign_dataset_is_mounted_read_only_and_a_job_knows_where_it_was(submission: Submission) -> None:
    ann, bob = submission.client("ann"), submission.client("bob")
    await submission.keep(group("team", "bob"))
    await ann.put(DATASET_PATH, json=changed(DATASET, "/spec/access", {"groups": ["team"]}))
    mount = {"type": "dataset", "source": "训练集@#+", "subPath": "2024"}
    document = changed(small_job_document(), "/spec/mounts", [mount])
    refused = await bob.post("/v1/jobs", json=document)
    assert [error["code"] for error in refused.json()["errors"]] == ["mount-must-be-read-only"]
    taken = await bob.post("/v1/jobs", json=changed(document, "/spec/mounts/0/readOnly", True))
    assert taken.status_code == 201
    await ann.delete(DATASET_PATH)
    job = await submission.bus.load_job(taken.json()["metadata"]["id"])
    resolved = job.submitted.resolved.mounts[0]
    assert resolved.uri == "file:///data/team/mnist/2024"
    assert resolved.root == "file:///data/team"
    assert resolved.mount_path == "/mnt/data"


async def test_a_directory_gets_a_name_only_inside_a_storage_that_its_owner_may_use(submission: Submission) -> None:
    await submission.keep(storage("closed", uri="file:///data/closed"))
    ann, root = submission.client("ann"), submission.client("root", admin=True)
    for kind, plural, field in (
        ("Dataset", "datasets", "uri"),
        ("Model", "models", "uri"),
        ("CodeSet", "code-sets", "directory"),
    ):
        for place in ("file:///etc", "file:///data", "file:///data/closed/x", "file:///data/teams"):
            answer = await ann.put(f"/v1/assets/{plural}/x", json=asset(kind, "x", **{field: place}))
            assert [error["code"] for error in answer.json()["errors"]] == ["location-not-allowed"], place
        assert (
            await root.put(f"/v1/assets/{plural}/x", json=asset(kind, "x", **{field: "file:///data"}))
        ).status_code == 201


async def test_a_storage_is_made_by_admins_and_never_shows_the_platforms_state(
    submission: Submission, tmp_path: Path
) -> None:
    body = asset("Storage", "s", uri="file:///data/s")
    assert (await submission.client("ann").put("/v1/assets/storages/s", json=body)).status_code == 403
    root = submission.client("root", admin=True)
    assert (await root.put("/v1/assets/storages/s", json=body)).status_code == 201
    for place in (tmp_path / "home", tmp_path / "home/nats", tmp_path):
        answer = await root.put("/v1/assets/storages/t", json=asset("Storage", "t", uri=f"file://{place}"))
        assert answer.json()["errors"][0]["code"] == "location-not-allowed"


async def test_prefixes_of_the_settings_bound_storages_and_open_directories(bus: Bus, tmp_path: Path) -> None:
    async with submitting(bus, tmp_path / "home", file_prefixes="/data:/scratch") as submission:
        await submission.keep(storage("closed", uri="file:///scratch/closed"))
        ann, root = submission.client("ann"), submission.client("root", admin=True)

        async def dataset_at(place: str) -> int:
            return (await ann.put("/v1/assets/datasets/x", json=asset("Dataset", "x", uri=place))).status_code

        assert (
            await root.put("/v1/assets/storages/s", json=asset("Storage", "s", uri="file:///srv"))
        ).status_code == 422
        assert await dataset_at("file:///scratch/ann") in (200, 201)
        assert await dataset_at("file:///scratch/closed/x") == 422
        assert await dataset_at("file:///scratch") == 422
        assert await dataset_at("file:///srv") == 422


async def test_a_dataset_whose_owner_lost_the_storage_cannot_be_mounted(submission: Submission) -> None:
    ann = submission.client("ann")
    await ann.put(DATASET_PATH, json=DATASET)
    await submission.keep(storage("team-data", uri="file:///data/team"))
    document = changed(small_job_document(), "/spec/mounts", [{"type": "dataset", "source": "训练集@#+"}])
    answer = await ann.post("/v1/jobs", json=document)
    assert [error["code"] for error in answer.json()["errors"]] == ["location-not-allowed"]


async def test_images_resolve_by_where_they_come_from(submission: Submission) -> None:
    ann, bob, root = submission.client("ann"), submission.client("bob"), submission.client("root", admin=True)
    platform = asset("Image", "pytorch-2.3", type="platform", address="registry.example/pytorch:2.3")
    assert (await ann.put("/v1/assets/images/pytorch-2.3", json=platform)).status_code == 403
    assert (await root.put("/v1/assets/images/pytorch-2.3", json=platform)).status_code == 201
    own = asset("Image", "mine", address="registry.example/ann:1", access={"users": ["bob"]})
    assert (await ann.put("/v1/assets/images/mine", json=own)).status_code == 201

    async def code_of(client: Any, name: str, source: str, ref: str) -> str | None:
        document = changed(small_job_document(name), "/spec/image", {"source": source, "ref": ref})
        answer = await client.post("/v1/jobs", json=document)
        return None if answer.status_code == 201 else answer.json()["errors"][0]["code"]

    assert await code_of(bob, "a", "platform", "pytorch-2.3") is None
    assert await code_of(ann, "b", "custom", "mine") is None
    assert await code_of(bob, "c", "shared", "mine") is None
    assert await code_of(bob, "d", "custom", "mine") == "unknown-custom-image"
    assert await code_of(ann, "e", "shared", "mine") == "unknown-shared-image"
    job = await submission.bus.load_job((await bob.get("/v1/jobs/c")).json()["metadata"]["id"])
    assert job.submitted.resolved.image.address == "registry.example/ann:1"


@pytest.mark.parametrize(
    ("kind", "plural", "spec", "pointer", "code"),
    [
        ("Dataset", "datasets", {"uri": "s3://bucket/y"}, "/spec/uri", "s3-not-configured"),
        ("Dataset", "datasets", {"uri": "nfs://host/y"}, "/spec/uri", "location-not-allowed"),
        ("Dataset", "datasets", {"uri": "file:///data/team", "acess": {}}, "/spec/acess", "unknown-key"),
        ("Project", "projects", {"members": {"users": ["nobody"]}}, "/spec/members/users/0", "unknown-user"),
        ("Image", "images", {"address": "x:1", "access": {"groups": ["g"]}}, "/spec/access/groups/0", "unknown-group"),
        ("Image", "images", {"address": "a b"}, "/spec/address", "image-address-invalid"),
        ("Image", "images", {"address": "x:1", "pullSecret": "none"}, "/spec/pullSecret", "unknown-secret"),
        ("Project", "projects", {"pullSecret": "none"}, "/spec/pullSecret", "unknown-secret"),
        ("CodeSet", "code-sets", {}, "/spec", "code-source"),
        ("CodeSet", "code-sets", {"inline": {"a": "", "a/b": ""}}, "/spec/inline/a~1b", "path-collision"),
        ("CodeSet", "code-sets", {"git": {"url": "https://x"}}, "/spec/git/url", "uri-invalid"),
        ("CodeSet", "code-sets", {"git": {"url": "https://me:pw@x.example/y"}}, "/spec/git/url", "uri-invalid"),
        ("CodeSet", "code-sets", {"git": {"url": "http://x.example/y"}}, "/spec/git/url", "uri-invalid"),
        ("CodeSet", "code-sets", {"git": {"url": "ext::sh -c id"}}, "/spec/git/url", "uri-invalid"),
        ("CodeSet", "code-sets", {"git": {"url": "ssh://git@x/y"}}, "/spec/git/url", "not-yet-available"),
        ("CodeSet", "code-sets", {"git": {"url": "file:///etc"}}, "/spec/git/url", "location-not-allowed"),
        ("CodeSet", "code-sets", {"git": {"url": "https://x/y", "secret": "s"}}, "/spec/git/secret", "unknown-secret"),
        ("CodeSet", "code-sets", {"upload": "sha256:" + "0" * 64}, "/spec/upload", "unknown-upload"),
        ("CodeSet", "code-sets", {"inline": {}}, "/spec/inline", "too-few"),
    ],
)  # fmt: skip
async def test_wrong_assets_are_refused_at_the_place(
    submission: Submission, kind: str, plural: str, spec: dict[str, Any], pointer: str, code: str
) -> None:
    answer = await submission.client().put(f"/v1/assets/{plural}/x", json=asset(kind, "x", **spec))
    assert answer.status_code == 422
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]


async def test_path_and_document_must_agree_on_name_and_kind(submission: Submission) -> None:
    client = submission.client()
    wrong_name = await client.put("/v1/assets/datasets/x", json=asset("Dataset", "y", uri="file:///data/team"))
    assert wrong_name.json()["errors"][0]["code"] == "name-mismatch"
    wrong_kind = await client.put("/v1/assets/models/x", json=asset("Dataset", "x", uri="file:///data/team"))
    assert wrong_kind.json()["errors"][0]["pointer"] == "/kind"
    assert (await client.get("/v1/assets/nonsense")).status_code == 404


async def test_if_match_guards_a_change(submission: Submission) -> None:
    client = submission.client()
    made = await client.put(DATASET_PATH, json=DATASET)
    newer = await client.put(DATASET_PATH, json=changed(DATASET, "/spec/description", "newer"))
    tag = {"If-Match": made.headers["etag"]}
    assert (await client.put(DATASET_PATH, json=DATASET, headers=tag)).status_code == 409
    assert (await client.delete(DATASET_PATH, headers=tag)).status_code == 409
    assert (await client.delete(DATASET_PATH, headers={"If-Match": newer.headers["etag"]})).status_code == 204


async def test_lists_are_paged_by_name(submission: Submission) -> None:
    client = submission.client()
    for name in ("c", "a", "b"):
        await client.put(f"/v1/assets/models/{name}", json=asset("Model", name, uri="file:///data/team"))
    first = (await client.get("/v1/assets/models?limit=2")).json()
    second = (await client.get("/v1/assets/models", params={"limit": 2, "cursor": first["next"]})).json()
    assert [[item["metadata"]["name"] for item in page["items"]] for page in (first, second)] == [["a", "b"], ["c"]]
    assert second["next"] is None
    assert (await client.get("/v1/assets/models?limit=0")).json()["errors"][0]["pointer"] == "/query/limit"


async def test_where_replicas_run_on_this_machine_missing_directories_are_told(bus: Bus, tmp_path: Path) -> None:
    data = tmp_path / "data"
    code = asset("CodeSet", "code", directory=f"file://{data}/code")
    repository = asset("CodeSet", "repo", git={"url": f"file://{data}/code"})
    async with submitting(bus, tmp_path / "home", replicas_here=True) as submission:
        root, ann = submission.client("root", admin=True), submission.client("ann")

        async def refused(client: httpx.AsyncClient, path: str, document: dict[str, Any]) -> tuple[str, str]:
            [error] = (await client.put(f"/v1/assets/{path}", json=document)).json()["errors"]
            return error["pointer"], error["code"]

        scratch = asset("Storage", "scratch", uri=f"file://{data}", access={"public": True})
        assert await refused(root, "storages/scratch", scratch) == ("/spec/uri", "no-such-directory")
        data.mkdir()
        assert (await root.put("/v1/assets/storages/scratch", json=scratch)).status_code == 201
        assert await refused(ann, "code-sets/code", code) == ("/spec/directory", "no-such-directory")
        assert await refused(ann, "code-sets/repo", repository) == ("/spec/git/url", "no-such-directory")
        (data / "code").mkdir()
        assert (await ann.put("/v1/assets/code-sets/code", json=code)).status_code == 201
        (data / "code").rmdir()
        job = changed(small_job_document(), "/spec/code", {"source": "code"})
        [error] = (await ann.post("/v1/jobs", json=job)).json()["errors"]
        assert (error["pointer"], error["code"]) == ("/spec/code/source", "no-such-directory")
