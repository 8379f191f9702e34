"""Whatever comes over HTTP gets a clear answer, and the submitter goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.auth.keys import SigningKey
from shared.auth.principal import Principal
from shared.auth.tokens import TokenIssuer
from shared.bus.provision import provision
from shared.clock import SystemClock
from shared.ids import UserId
from tests.support.nats import NatsServer
from tests.support.specs import changed, small_job_document
from tests.support.submitter import PROBLEM, Submission, submitting

JSON = {"Content-Type": "application/json"}


async def still_works(submission: Submission) -> bool:
    answer = await submission.client("zed").post("/v1/jobs", json=small_job_document())
    return answer.status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800"}',
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b"[" * 500_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "torn", "utf-16", "nan", "infinite", "twice", "surrogate", "deep", "bomb", "long-number"],
)
async def test_what_is_no_json_is_malformed(submission: Submission, body: bytes) -> None:
    answer = await submission.client().post("/v1/jobs", content=body, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert await still_works(submission)


async def test_a_spec_of_ten_megabytes_is_refused_before_it_is_read(submission: Submission) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"x": "'
        for _ in range(160):
            sent += 1
            yield b"x" * 65536
        yield b'"}'

    announced = await submission.client().post("/v1/jobs", content=b"x" * (10 << 20), headers=JSON)
    streamed = await submission.client().post("/v1/jobs", content=pieces(), headers=JSON)
    assert (announced.status_code, streamed.status_code) == (413, 413)
    assert sent < 20
    assert await still_works(submission)


async def test_a_spec_near_the_limit_is_taken_or_refused_by_its_size(submission: Submission) -> None:
    client = submission.client()
    for size, status in ((200_000, 201), (261_500, 422), (300_000, 422)):
        files = {f"{number}.py": "x" * (size // 10) for number in range(10)}
        document = changed(small_job_document(f"job-{size}"), "/spec/code", {"inline": files})
        answer = await client.post("/v1/jobs", json=document)
        assert answer.status_code == status, answer.text[:500]
        if status == 422:
            assert [error["code"] for error in answer.json()["errors"]] == ["spec-too-large"]


async def test_only_json_is_taken(submission: Submission) -> None:
    answer = await submission.client().post("/v1/jobs", content=b"name: x", headers={"Content-Type": "text/yaml"})
    assert answer.status_code == 415


async def test_requests_without_a_good_token_are_refused_everywhere(submission: Submission) -> None:
    forged = TokenIssuer(SigningKey.generate(), SystemClock()).issue(Principal(UserId("u-x"), "admin", admin=True))
    for path in ("/v1/jobs", "/v1/jobs/x", "/v1/jobs/x/events", "/v1/assets/datasets", "/v1/auth/me", "/v1/auth/users"):
        for value in (None, "Bearer ", "Bearer x.y.z", f"Bearer {forged.token}", "Basic YTpi"):
            headers = {"Authorization": value} if value else {}
            answer = await submission.client(None).get(path, headers=headers)
            assert answer.status_code == 401, (path, value)
            assert answer.headers["content-type"] == PROBLEM


async def test_every_route_but_login_and_keys_asks_for_a_token(submission: Submission) -> None:
    document = submission.service.app.openapi()
    open_routes = {
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not operation.get("security")
    }
    assert open_routes == {("post", "/v1/auth/login"), ("get", "/v1/auth/jwks")}


@pytest.mark.parametrize("name", ["..", ".", "%2E%2E", "a%2Fb", "%00", "%F0%9F%9A%80", "tj-aaaaaaaaaaaa", "x" * 3000])
async def test_odd_references_are_simply_not_there(submission: Submission, name: str) -> None:
    for path in (f"/v1/jobs/{name}", f"/v1/assets/datasets/{name}"):
        answer = await submission.client().get(path)
        assert answer.status_code in (200, 404), path
        if answer.status_code == 200:
            assert answer.json().get("items") == []


async def test_a_flood_of_unknown_keys_is_answered_briefly(submission: Submission) -> None:
    document = small_job_document()
    document["spec"] |= {f"key-{number}": number for number in range(10_000)}
    answer = await submission.client().post("/v1/jobs", content=json.dumps(document), headers=JSON)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100


async def test_submissions_over_a_restart_of_nats_make_each_job_once(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    async with submitting(bus, tmp_path / "home") as submission:
        client = submission.client()

        async def submit(number: int) -> str:
            key = {"Idempotency-Key": f"key-{number}"}
            while True:
                answer = await client.post("/v1/jobs", json=small_job_document(f"job-{number}"), headers=key)
                if answer.status_code == 201:
                    return str(answer.json()["metadata"]["id"])
                assert answer.status_code == 503, answer.text

        first = await asyncio.gather(*(submit(number) for number in range(5)))
        submitting_more = [asyncio.create_task(submit(number)) for number in range(20)]
        await asyncio.sleep(0.02)
        server.kill()
        server.start()
        ids = await asyncio.gather(*submitting_more)
        assert ids[:5] == first
        for number, job in enumerate(ids):
            for reference in (job, f"job-{number}"):
                assert (await client.get(f"/v1/jobs/{reference}")).json()["metadata"]["id"] == job
        await submission.service.jobs.reached(max([(await bus.load_job(job)).sequence for job in ids]))
        listed = (await client.get("/v1/jobs?limit=100")).json()["items"]
        assert sorted(job["metadata"]["id"] for job in listed) == sorted(ids)
        for job in ids:
            assert len(await bus.history.job_events(job)) == 1
    await bus.close()
    server.kill()


async def test_while_nats_is_away_the_answer_is_503_and_afterwards_all_is_well(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    async with submitting(bus, tmp_path / "home", admin_password=SecretStr("")) as submission:
        client = submission.client()
        server.kill()
        answer = await client.post("/v1/jobs", json=small_job_document())
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        server.start()
        while (answer := await client.post("/v1/jobs", json=small_job_document())).status_code == 503:
            pass
        assert answer.status_code == 201
        assert (await client.get("/v1/jobs/echo")).status_code == 200
    await bus.close()
    server.kill()
