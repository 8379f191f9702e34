"""The events of a job: all at once, and as a stream that resumes and ends."""

from __future__ import annotations

import asyncio
import json

import httpx

from shared import events as ev
from tests.support.jobs import placed
from tests.support.specs import small_job_document
from tests.support.submitter import Submission

COMPLETED = ev.AttemptEnded(reason=ev.EndReason.COMPLETED)
LIFE = (placed(1), ev.Started(), COMPLETED, ev.Succeeded())
NAMES = ["job.submitted", "job.placed", "job.started", "attempt.ended", "job.succeeded"]


async def submitted_job(client: httpx.AsyncClient) -> str:
    return (await client.post("/v1/jobs", json=small_job_document())).json()["metadata"]["id"]


def name_of(document: dict[str, str]) -> str:
    return document["type"].removeprefix("trainmaster.").removesuffix(".v1")


def events_in(text: str) -> list[dict[str, str]]:
    """Server-sent events as their fields."""
    blocks = [block for block in text.split("\n\n") if "data: " in block]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


async def test_events_are_cloud_events_with_their_sequence(submission: Submission) -> None:
    client = submission.client()
    job = await submitted_job(client)
    await submission.tell(job, *LIFE)
    items = (await client.get("/v1/jobs/echo/events")).json()["items"]
    assert [name_of(item) for item in items] == NAMES
    assert items[0]["specversion"] == "1.0"
    assert items[0]["subject"] == job
    sequences = [item["sequence"] for item in items]
    assert sequences == sorted(set(sequences))


async def test_a_stream_gives_history_then_what_happens_and_ends_with_the_job(submission: Submission) -> None:
    client = submission.client()
    job = await submitted_job(client)
    following = asyncio.create_task(client.get("/v1/jobs/echo/events?follow=true"))
    await asyncio.sleep(0)
    await submission.tell(job, *LIFE)
    answer = await asyncio.wait_for(following, 45)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_in(answer.text)
    assert [name_of(json.loads(event["data"])) for event in events[:-1]] == NAMES
    assert [int(event["id"]) for event in events[:-1]] == [
        json.loads(event["data"])["sequence"] for event in events[:-1]
    ]
    assert events[-1]["event"] == "end"


async def test_a_stream_resumes_behind_the_last_event_that_was_seen(submission: Submission) -> None:
    client = submission.client()
    job = await submitted_job(client)
    await submission.tell(job, *LIFE)
    accept = {"Accept": "text/event-stream"}
    events = events_in((await client.get("/v1/jobs/echo/events", headers=accept)).text)
    resumed = await client.get("/v1/jobs/echo/events", headers={**accept, "Last-Event-ID": events[2]["id"]})
    assert events_in(resumed.text) == events[3:]
    done = await client.get("/v1/jobs/echo/events", headers={**accept, "Last-Event-ID": events[4]["id"]})
    assert [event["event"] for event in events_in(done.text)] == ["end"]
    bad = await client.get("/v1/jobs/echo/events", headers={**accept, "Last-Event-ID": "x"})
    assert bad.status_code == 422


async def test_events_of_foreign_jobs_are_not_there(submission: Submission) -> None:
    job = await submitted_job(submission.client("ann"))
    for query in ("", "?follow=true"):
        assert (await submission.client("bob").get(f"/v1/jobs/{job}/events{query}")).status_code == 404


async def test_finds_of_rules_that_are_tried_are_in_no_answer_but_those_to_admins(submission: Submission) -> None:
    job = await submitted_job(submission.client("ann"))
    tried = ev.IncidentRaised(rule="scratch-gone", line="boom", mode="shadow")
    await submission.tell(job, placed(1), ev.Started())
    await submission.observe(job, tried)
    await submission.tell(job, COMPLETED, ev.Succeeded())
    for user, seen in (("ann", 0), ("root", 1)):
        client = submission.client(user, admin=user == "root")
        texts = [(await client.get(f"/v1/jobs/{job}{path}")).text for path in ("", "/events", "/events?follow=true")]
        assert [text.count("scratch-gone") for text in texts] == [seen] * 3
