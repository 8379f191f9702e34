"""Jobs over HTTP and a real nats-server: submit, names, repeats, lists, stop, delete."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from shared import events as ev
from shared.bus import Bus, Claim
from shared.bus.publish import name_subject
from shared.catalog import User
from shared.clock import SystemClock
from shared.ids import is_job_id, new_job_id
from tests.support.catalog import group, instance_type, pool, project
from tests.support.jobs import placed
from tests.support.specs import changed, job_document, small_job_document, without
from tests.support.submitter import PROBLEM, Submission, submitting

COMPLETED = ev.AttemptEnded(reason=ev.EndReason.COMPLETED)


async def test_a_submitted_job_is_there_with_defaults_etag_and_location(submission: Submission) -> None:
    client = submission.client()
    answer = await client.post("/v1/jobs", json=small_job_document("训练@#+[1]"))
    assert answer.status_code == 201
    document = answer.json()
    job_id = document["metadata"]["id"]
    assert is_job_id(job_id)
    assert answer.headers["location"] == f"/v1/jobs/{job_id}"
    assert answer.headers["etag"] == f'"{document["metadata"]["sequence"]}"'
    assert document["metadata"]["owner"] == "ann"
    assert document["spec"]["roles"][0]["pool"] == {"type": "public"}
    assert document["status"]["state"] == "Queued"
    for reference in (job_id, quote("训练@#+[1]", safe="")):
        found = await client.get(f"/v1/jobs/{reference}")
        assert found.json() == document
    recorded = (await submission.bus.load_job(job_id)).submitted
    assert recorded.resolved.roles[0].price_micros_per_hour == 100_000
    assert recorded.owner_name == "ann"


async def test_of_concurrent_submissions_of_one_name_exactly_one_wins(submission: Submission) -> None:
    client = submission.client()
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=small_job_document()) for _ in range(12)))
    winners = [answer for answer in answers if answer.status_code == 201]
    losers = [answer for answer in answers if answer.status_code == 409]
    assert (len(winners), len(losers)) == (1, 11)
    holder = winners[0].json()["metadata"]["id"]
    assert all(holder in answer.json()["detail"] for answer in losers)
    assert len((await client.get("/v1/jobs")).json()["items"]) == 1


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}])
async def test_a_claim_whose_job_was_lost_with_the_server_is_in_nobodys_way(
    submission: Submission, bus: Bus, key: dict[str, str]
) -> None:
    lost = ev.Event.of(
        ev.NameClaimed(name="train"), job=new_job_id(), attempt=1, time=SystemClock().now(), owner="x", project="x"
    )
    await bus.append_batch([Claim(lost, User.id_of("ann"), "train", 0)])
    client = submission.client()
    answer = await client.post("/v1/jobs", json=small_job_document("train"), headers=key)
    assert answer.status_code == 201
    assert (await client.post("/v1/jobs", json=small_job_document("train"))).status_code == 409
    assert (await client.get("/v1/jobs/train")).json() == answer.json()


async def test_a_job_that_lost_its_name_to_another_does_not_free_it_when_it_is_deleted(
    submission: Submission, bus: Bus
) -> None:
    client = submission.client()
    first = (await client.post("/v1/jobs", json=small_job_document("train"))).json()["metadata"]["id"]
    await submission.tell(first, placed(), COMPLETED, ev.Succeeded())
    released = ev.Event.of(
        ev.NameReleased(name="train"), job=first, attempt=1, time=SystemClock().now(), owner="x", project="x"
    )
    held = await bus.history.last_sequence(name_subject(User.id_of("ann"), "train"))
    await bus.append_batch([Claim(released, User.id_of("ann"), "train", held)])
    second = (await client.post("/v1/jobs", json=small_job_document("train"))).json()["metadata"]["id"]
    assert (await client.delete(f"/v1/jobs/{first}")).status_code == 204
    assert (await client.post("/v1/jobs", json=small_job_document("train"))).status_code == 409
    assert (await client.get("/v1/jobs/train")).json()["metadata"]["id"] == second


async def test_a_generated_name_is_told_and_a_repeat_makes_no_second_job(submission: Submission) -> None:
    client = submission.client()
    document = changed(without(small_job_document(), "/metadata/name"), "/metadata/generateName", "sweep-")
    answers = [await client.post("/v1/jobs", json=document, headers={"Idempotency-Key": key}) for key in "aab"]
    metadata = [answer.json()["metadata"] for answer in answers]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert metadata[0] == metadata[1]
    assert len({one["name"] for one in metadata}) == 2
    assert all(one["name"].startswith("sweep-") and one["generateName"] == "sweep-" for one in metadata)
    assert (await client.get(f"/v1/jobs/{metadata[2]['name']}")).json()["metadata"] == metadata[2]


async def test_two_submitters_agree_on_one_winner(submission: Submission, bus: Bus, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "home" / "key.pem", tmp_path / "other" / "key.pem")
    async with submitting(bus, tmp_path / "other") as other:
        clients = [submission.client(), other.client()]
        answers = await asyncio.gather(
            *(client.post("/v1/jobs", json=small_job_document()) for _ in range(5) for client in clients)
        )
        assert sorted(answer.status_code for answer in answers) == [201, *[409] * 9]
        key = {"Idempotency-Key": "k"}
        repeats = await asyncio.gather(
            *(
                client.post("/v1/jobs", json=small_job_document("x"), headers=key)
                for _ in range(3)
                for client in clients
            )
        )
        assert {answer.status_code for answer in repeats} == {201}
        assert len({answer.json()["metadata"]["id"] for answer in repeats}) == 1


async def test_two_users_may_use_one_name(submission: Submission) -> None:
    for name in ("ann", "bob"):
        answer = await submission.client(name).post("/v1/jobs", json=small_job_document())
        assert answer.status_code == 201


async def test_a_repeat_with_the_same_key_is_the_same_job_and_another_body_is_refused(submission: Submission) -> None:
    client, key = submission.client(), {"Idempotency-Key": "k-1"}
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=small_job_document(), headers=key) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["metadata"]["id"] for answer in answers}) == 1
    other = await client.post("/v1/jobs", json=small_job_document("other"), headers=key)
    assert other.status_code == 422
    assert other.json()["errors"][0]["code"] == "idempotency-key-reused"
    raced = await asyncio.gather(
        *(
            client.post("/v1/jobs", json=small_job_document(f"r-{n}"), headers={"Idempotency-Key": "r"})
            for n in range(4)
        )
    )
    assert sorted(answer.status_code for answer in raced) == [201, 422, 422, 422]
    empty = await client.post("/v1/jobs", json=small_job_document("x"), headers={"Idempotency-Key": ""})
    assert empty.status_code == 422
    foreign = await submission.client("bob").post("/v1/jobs", json=small_job_document("other"), headers=key)
    assert foreign.status_code == 201
    bad = await client.post("/v1/jobs", json=small_job_document("x"), headers={"Idempotency-Key": "a b"})
    assert bad.json()["errors"][0]["pointer"] == "/header/idempotency-key"


async def test_a_key_and_a_name_hold_over_a_restart_of_the_submitter(bus: Bus, tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k-1"}
    async with submitting(bus, tmp_path / "home") as first:
        answer = await first.client().post("/v1/jobs", json=small_job_document(), headers=key)
    async with submitting(bus, tmp_path / "home") as second:
        client = second.client()
        again = await client.post("/v1/jobs", json=small_job_document(), headers=key)
        assert again.json()["metadata"] == answer.json()["metadata"]
        taken = await client.post("/v1/jobs", json=small_job_document())
        assert taken.status_code == 409
        assert (await client.get("/v1/jobs/echo")).json() == answer.json()


async def test_all_violations_come_back_at_once_as_a_problem_document(submission: Submission) -> None:
    document = changed(changed(small_job_document("a b"), "/spec/priority", 11), "/spec/rolez", [])
    answer = await submission.client().post("/v1/jobs", json=document)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == PROBLEM
    assert {(error["pointer"], error["code"]) for error in answer.json()["errors"]} == {
        ("/metadata/name", "name-character"),
        ("/spec/priority", "out-of-range"),
        ("/spec/rolez", "unknown-key"),
    }


async def test_references_that_do_not_exist_are_violations_with_what_exists(submission: Submission) -> None:
    document = changed(job_document(), "/spec/roles/0/pool", {"type": "dedicated", "name": "nowhere"})
    document = changed(document, "/spec/roles/1/instanceType", "huge")
    answer = await submission.client().post("/v1/jobs", json=document)
    assert {(error["pointer"], error["code"]) for error in answer.json()["errors"]} == {
        ("/metadata/project", "unknown-project"),
        ("/spec/image/ref", "unknown-platform-image"),
        ("/spec/mounts/1/source", "unknown-dataset"),
        ("/spec/roles/0/pool/name", "unknown-dedicated-pool"),
        ("/spec/roles/1/instanceType", "unknown-instance-type"),
    }
    messages = " ".join(error["message"] for error in answer.json()["errors"])
    assert "cpu-small" in messages


async def test_a_foreign_pool_is_forbidden_by_name_and_open_to_members_without_a_price(submission: Submission) -> None:
    await submission.keep(
        pool("team-a", type="dedicated", members={"groups": ["team"]}),
        instance_type("gpu", pools=("team-a",), gpu={"count": 8, "model": "A100"}),
        group("team", "bob"),
    )
    document = changed(small_job_document(), "/spec/roles/0/pool", {"type": "dedicated", "name": "team-a"})
    document = changed(document, "/spec/roles/0/instanceType", "gpu")
    refused = await submission.client("ann").post("/v1/jobs", json=document)
    assert refused.status_code == 403
    assert "'team-a'" in refused.json()["detail"]
    taken = await submission.client("bob").post("/v1/jobs", json=document)
    assert taken.status_code == 201
    job = await submission.bus.load_job(taken.json()["metadata"]["id"])
    role = job.submitted.resolved.roles[0]
    assert (role.pool_name, role.gpu_count, role.price_micros_per_hour) == ("team-a", 8, None)


async def test_foreign_jobs_are_not_there_but_for_project_members_and_admins(submission: Submission) -> None:
    await submission.keep(project("vision", owner="ann", users=["bob"]))
    ann, bob, eve = submission.client("ann"), submission.client("bob"), submission.client("eve")
    own = (await ann.post("/v1/jobs", json=small_job_document("own"))).json()["metadata"]["id"]
    shared = changed(small_job_document("shared"), "/metadata/project", "vision")
    shared_id = (await ann.post("/v1/jobs", json=shared)).json()["metadata"]["id"]
    assert (await eve.post("/v1/jobs", json=shared)).status_code == 422

    assert (await bob.get(f"/v1/jobs/{own}")).status_code == 404
    assert (await bob.get(f"/v1/jobs/{shared_id}")).status_code == 200
    assert (await bob.get("/v1/jobs/shared")).json()["metadata"]["id"] == shared_id
    assert (await bob.post(f"/v1/jobs/{shared_id}/stop")).status_code == 403
    assert (await bob.post(f"/v1/jobs/{own}/stop")).status_code == 404
    assert [job["metadata"]["name"] for job in (await bob.get("/v1/jobs")).json()["items"]] == ["shared"]
    assert (await eve.get("/v1/jobs")).json()["items"] == []
    root = submission.client("root", admin=True)
    assert len((await root.get("/v1/jobs")).json()["items"]) == 2
    assert len((await root.get("/v1/jobs?owner=ann")).json()["items"]) == 2
    assert len((await root.get("/v1/jobs?owner=bob")).json()["items"]) == 0


async def test_lists_are_filtered_and_paged_newest_first(submission: Submission) -> None:
    client = submission.client()
    for number in range(5):
        labels = ["even"] if number % 2 == 0 else ["odd", "demo"]
        document = changed(small_job_document(f"job-{number}"), "/metadata/labels", labels)
        assert (await client.post("/v1/jobs", json=document)).status_code == 201
    await client.post("/v1/jobs/job-3/stop")

    async def names(query: str) -> list[str]:
        answer = await client.get(f"/v1/jobs?{query}")
        return [job["metadata"]["name"] for job in answer.json()["items"]]

    assert await names("label=even") == ["job-4", "job-2", "job-0"]
    assert await names("label=odd&label=demo&state=Queued") == ["job-1"]
    assert await names("state=Stopping&state=Running") == ["job-3"]
    assert await names("project=default&limit=1") == ["job-4"]
    assert await names("project=other") == []
    first = (await client.get("/v1/jobs?limit=2")).json()
    second = (await client.get("/v1/jobs", params={"limit": 2, "cursor": first["next"]})).json()
    third = (await client.get("/v1/jobs", params={"limit": 2, "cursor": second["next"]})).json()
    pages = [[job["metadata"]["name"] for job in page["items"]] for page in (first, second, third)]
    assert pages == [["job-4", "job-3"], ["job-2", "job-1"], ["job-0"]]
    assert third["next"] is None


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=x", "/query/limit"),
        ("state=running", "/query/state/0"),
        ("cursor=nonsense", "/query/cursor"),
        ("stat=Running", "/query/stat"),
    ],
)
async def test_bad_query_values_are_named(submission: Submission, query: str, pointer: str) -> None:
    answer = await submission.client().get(f"/v1/jobs?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_stop_moves_once_and_an_ended_job_is_a_conflict(submission: Submission) -> None:
    client = submission.client()
    job = (await client.post("/v1/jobs", json=small_job_document())).json()["metadata"]
    stopped = await client.post("/v1/jobs/echo/stop")
    assert stopped.json()["status"]["state"] == "Stopping"
    again = await client.post("/v1/jobs/echo/stop")
    assert again.headers["etag"] == stopped.headers["etag"]
    await submission.tell(job["id"], ev.AttemptEnded(reason=ev.EndReason.STOPPED), ev.Stopped())
    assert (await client.post("/v1/jobs/echo/stop")).status_code == 409


async def test_if_match_guards_a_stop_against_a_change_in_between(submission: Submission) -> None:
    client = submission.client()
    job = (await client.post("/v1/jobs", json=small_job_document())).json()["metadata"]
    await submission.tell(job["id"], placed(1))
    stale = await client.post("/v1/jobs/echo/stop", headers={"If-Match": f'"{job["sequence"]}"'})
    assert stale.status_code == 409
    assert stale.json()["current"] > job["sequence"]
    tag = (await client.get("/v1/jobs/echo")).headers["etag"]
    assert (await client.post("/v1/jobs/echo/stop", headers={"If-Match": tag})).status_code == 200


async def test_only_an_ended_job_is_deleted_and_its_name_is_free_then(submission: Submission) -> None:
    client = submission.client()
    first = (await client.post("/v1/jobs", json=small_job_document())).json()["metadata"]["id"]
    assert (await client.delete("/v1/jobs/echo")).status_code == 409
    await submission.tell(first, placed(1), ev.Started(), COMPLETED, ev.Succeeded())
    assert (await client.delete("/v1/jobs/echo")).status_code == 204
    assert (await client.get(f"/v1/jobs/{first}")).status_code == 404
    assert (await client.delete(f"/v1/jobs/{first}")).status_code == 404
    second = await client.post("/v1/jobs", json=small_job_document())
    assert second.status_code == 201
    assert second.json()["metadata"]["id"] != first


async def test_a_key_whose_job_was_deleted_is_a_conflict(submission: Submission) -> None:
    client, key = submission.client(), {"Idempotency-Key": "k-1"}
    job = (await client.post("/v1/jobs", json=small_job_document(), headers=key)).json()["metadata"]["id"]
    await submission.tell(job, placed(1), ev.Started(), COMPLETED, ev.Succeeded())
    await client.delete("/v1/jobs/echo")
    assert (await client.post("/v1/jobs", json=small_job_document(), headers=key)).status_code == 409


async def test_the_detail_tells_placement_replicas_and_end(submission: Submission) -> None:
    client = submission.client()
    job = (await client.post("/v1/jobs", json=small_job_document())).json()["metadata"]["id"]
    await submission.tell(job, placed(2), ev.Started(), COMPLETED, ev.Succeeded())
    status = (await client.get("/v1/jobs/echo")).json()["status"]
    attempt = status["attempts"][0]
    assert status["state"] == "Succeeded"
    assert attempt["placement"]["roles"][0] == {
        "role": "worker",
        "pool": "p-public",
        "nodes": ["n-1", "n-1"],
        "nodeNames": ["n-1", "n-1"],
        "devices": [[], []],
    }
    assert [(replica["role"], replica["index"]) for replica in attempt["replicas"]] == [("worker", 0), ("worker", 1)]
    assert attempt["endReason"] == "completed"
    listed = (await client.get("/v1/jobs")).json()["items"][0]["status"]["attempts"][0]
    assert (listed["placement"], listed["replicas"]) == (None, [])
