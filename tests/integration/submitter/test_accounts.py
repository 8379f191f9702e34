"""Users, groups, logins and passwords over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jwt

from shared import events as ev
from shared.bus import Bus
from shared.bus.streams import CREDENTIALS_BUCKET
from tests.support.catalog import dataset
from tests.support.specs import small_job_document
from tests.support.submitter import ADMIN_PASSWORD, Submission, submitting

PASSWORD = "correct horse battery"


def user(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "trainmaster/v1", "kind": "User", "metadata": {"name": name}, "spec": spec}


def group(name: str, *members: str) -> dict[str, Any]:
    spec = {"members": list(members)}
    return {"apiVersion": "trainmaster/v1", "kind": "Group", "metadata": {"name": name}, "spec": spec}


async def login(client: httpx.AsyncClient, name: str, password: str) -> httpx.Response:
    return await client.post("/v1/auth/login", json={"username": name, "password": password})


async def bearer(client: httpx.AsyncClient, name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {(await login(client, name, password)).json()['token']}"}


async def test_the_first_admin_logs_in_and_the_token_is_verified_by_the_published_keys(submission: Submission) -> None:
    client = submission.client(None)
    answer = await login(client, "admin", ADMIN_PASSWORD)
    assert answer.status_code == 200
    token = answer.json()["token"]
    jwks = jwt.PyJWKSet.from_dict((await client.get("/v1/auth/jwks")).json())
    key = jwks[jwt.get_unverified_header(token)["kid"]].key
    claims = jwt.decode(token, key, algorithms=["EdDSA"], audience="trainmaster-api")
    assert claims["name"] == "admin"
    me = await client.get("/v1/auth/me", headers={"Authorization": f"Bearer {token}"})
    assert me.json() == {"id": claims["sub"], "name": "admin", "admin": True, "groups": []}


async def test_the_first_admin_is_made_once(bus: Bus, tmp_path: Path) -> None:
    async with submitting(bus, tmp_path / "home") as first:
        client = first.client(None)
        headers = await bearer(client, "admin", ADMIN_PASSWORD)
        body = {"current": ADMIN_PASSWORD, "new": PASSWORD}
        assert (await client.put("/v1/auth/password", json=body, headers=headers)).status_code == 200
    async with submitting(bus, tmp_path / "home") as second:
        assert (await login(second.client(None), "admin", ADMIN_PASSWORD)).status_code == 401
        assert (await login(second.client(None), "admin", PASSWORD)).status_code == 200


async def test_wrong_logins_look_the_same_whatever_is_wrong_and_are_slowed_down(submission: Submission) -> None:
    client, root = submission.client(None), submission.client("admin", admin=True)
    await root.put("/v1/auth/users/dis", json=user("dis", password=PASSWORD, disabled=True))
    answers = [
        await login(client, name, password)
        for name, password in (("admin", "wrong"), ("nobody", PASSWORD), ("dis", PASSWORD), ("ann", PASSWORD))
    ]
    problems = [{**answer.json(), "request_id": ""} for answer in answers]
    assert all(problem == problems[0] for problem in problems)
    assert answers[0].status_code == 401
    for _ in range(9):
        await login(client, "admin", "wrong")
    slowed = await login(client, "admin", ADMIN_PASSWORD)
    assert slowed.status_code == 429
    assert int(slowed.headers["retry-after"]) > 0


async def test_no_hash_and_no_password_is_ever_shown(submission: Submission) -> None:
    root = submission.client("admin", admin=True)
    made = await root.put("/v1/auth/users/carl", json=user("carl", password=PASSWORD, email="c@example.org"))
    read = await root.get("/v1/auth/users/carl")
    listed = await root.get("/v1/auth/users")
    watching = await submission.service.catalog.refresh()
    for text in (made.text, read.text, listed.text, repr(vars(watching))):
        assert PASSWORD not in text
        assert "argon2" not in text
    short = await root.put("/v1/auth/users/dora", json=user("dora", password="tiny pass"))
    assert short.json()["errors"][0]["code"] == "password-length"
    assert "tiny" not in short.text
    bucket = await submission.bus.js.key_value(CREDENTIALS_BUCKET)
    kept = await bucket.get(made.json()["metadata"]["id"])
    assert kept.value.startswith(b'{"hash": "$argon2id$')


async def test_only_admins_manage_and_everybody_sees_their_own_user(submission: Submission) -> None:
    ann, root = submission.client("ann"), submission.client("admin", admin=True)
    assert (await ann.get("/v1/auth/users")).status_code == 403
    assert (await ann.get("/v1/auth/users/bob")).status_code == 403
    assert (await ann.get("/v1/auth/users/ann")).json()["metadata"]["name"] == "ann"
    assert (await ann.put("/v1/auth/users/ann", json=user("ann", admin=True))).status_code == 403
    assert (await ann.put("/v1/auth/groups/g", json=group("g", "ann"))).status_code == 403
    assert (await ann.delete("/v1/auth/users/bob")).status_code == 403
    assert (await root.put("/v1/auth/groups/g", json=group("g", "ann"))).status_code == 201
    assert (await ann.get("/v1/auth/me")).json()["groups"] == ["g"]
    unknown = await root.put("/v1/auth/groups/h", json=group("h", "ann", "zoe"))
    assert [(e["pointer"], e["code"]) for e in unknown.json()["errors"]] == [("/spec/members/1", "unknown-user")]
    assert (await root.delete("/v1/auth/groups/g")).status_code == 204


async def test_a_new_user_needs_a_password_and_names_of_every_script_log_in(submission: Submission) -> None:
    client, root = submission.client(None), submission.client("admin", admin=True)
    missing = await root.put("/v1/auth/users/用户@1", json=user("用户@1"))
    assert [(e["pointer"], e["code"]) for e in missing.json()["errors"]] == [("/spec/password", "required")]
    await root.put("/v1/auth/users/用户@1", json=user("用户@1", password=PASSWORD))
    headers = await bearer(client, "用户@1", PASSWORD)
    assert (await client.post("/v1/jobs", json=small_job_document(), headers=headers)).status_code == 201


async def test_a_change_of_password_or_rights_takes_tokens_back_at_once(submission: Submission) -> None:
    client, root = submission.client(None), submission.client("admin", admin=True)
    await root.put("/v1/auth/users/carl", json=user("carl", password=PASSWORD))
    before = await bearer(client, "carl", PASSWORD)
    wrong = await client.put("/v1/auth/password", json={"current": "wrong", "new": PASSWORD * 2}, headers=before)
    assert [(error["pointer"], error["code"]) for error in wrong.json()["errors"]] == [("/current", "wrong-password")]
    body = {"current": PASSWORD, "new": PASSWORD * 2}
    changed = await client.put("/v1/auth/password", json=body, headers=before)
    after = {"Authorization": f"Bearer {changed.json()['token']}"}
    assert (await client.get("/v1/auth/me", headers=before)).status_code == 401
    assert (await client.get("/v1/auth/me", headers=after)).status_code == 200
    await root.put("/v1/auth/users/carl", json=user("carl", disabled=True))
    assert (await client.get("/v1/auth/me", headers=after)).status_code == 401
    assert (await login(client, "carl", PASSWORD * 2)).status_code == 401


async def test_the_last_admin_cannot_go(submission: Submission) -> None:
    root = submission.client("admin", admin=True)
    assert (await root.put("/v1/auth/users/admin", json=user("admin", admin=False))).status_code == 409
    assert (await root.put("/v1/auth/users/admin", json=user("admin", admin=True, disabled=True))).status_code == 409
    assert (await root.delete("/v1/auth/users/admin")).status_code == 409
    await root.put("/v1/auth/users/second", json=user("second", admin=True, password=PASSWORD))
    assert (await root.delete("/v1/auth/users/admin")).status_code == 204


async def test_a_user_with_assets_or_live_jobs_stays(submission: Submission) -> None:
    root, ann = submission.client("admin", admin=True), submission.client("ann")
    await submission.keep(dataset("d", owner="bob"))
    owns = await root.delete("/v1/auth/users/bob")
    assert owns.status_code == 409
    assert "dataset 'd'" in owns.json()["detail"]
    await ann.post("/v1/jobs", json=small_job_document())
    runs = await root.delete("/v1/auth/users/ann")
    assert runs.status_code == 409
    assert "1 live job" in runs.json()["detail"]


async def test_the_name_of_a_deleted_user_who_had_jobs_is_not_given_again(submission: Submission) -> None:
    root, ann = submission.client("admin", admin=True), submission.client("ann")
    job = (await ann.post("/v1/jobs", json=small_job_document())).json()["metadata"]["id"]
    await ann.post(f"/v1/jobs/{job}/stop")
    await submission.tell(job, ev.Stopped())
    assert (await root.delete("/v1/auth/users/ann")).status_code == 204
    again = await root.put("/v1/auth/users/ann", json=user("ann", password=PASSWORD))
    assert again.status_code == 409
    assert "there are jobs of an earlier user 'ann'" in again.json()["detail"]


async def test_the_name_of_a_deleted_user_is_given_again_once_it_has_no_rights(submission: Submission) -> None:
    root = submission.client("admin", admin=True)
    await root.put("/v1/auth/users/carl", json=user("carl", password=PASSWORD))
    await root.put("/v1/auth/groups/g", json=group("g", "carl", "ann"))
    assert (await root.delete("/v1/auth/users/carl")).status_code == 204
    again = await root.put("/v1/auth/users/carl", json=user("carl", password=PASSWORD))
    assert again.status_code == 409
    assert "still named in group 'g'" in again.json()["detail"]
    await root.put("/v1/auth/groups/g", json=group("g", "ann"))
    assert (await root.put("/v1/auth/users/carl", json=user("carl", password=PASSWORD))).status_code == 201
