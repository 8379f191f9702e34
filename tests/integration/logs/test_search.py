"""Searching one log, a job, or all of one's jobs: what is found, where it goes on, and who sees what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.auth.principal import Principal
from shared.bus import Bus
from shared.catalog import CatalogStore, User
from shared.ids import UserId
from shared.logs_wire import Chunk
from tests.support.catalog import made, project
from tests.support.logs import ADA, KeptLogs, log_of, publish, submit

ANN, BOB = (Principal(UserId(User.id_of(name)), name) for name in ("ann", "bob"))
Found = tuple[list[dict[str, Any]], dict[str, Any]]


async def logged(kept: KeptLogs, texts: list[bytes], owner: Principal = ADA, name: str = "demo", **where: str) -> str:
    job = await submit(kept.bus, name, replicas=len(texts), owner=owner.user_id, **where)
    for index, text in enumerate(texts):
        await publish(kept.bus, Chunk(log_of(job, index), 0, text, times=((0, 1_790_000_000_000),)))
        await publish(kept.bus, Chunk(log_of(job, index), len(text), end=len(text)))
    await kept.until_ended(job, len(texts), principal=owner)
    return job


async def search(kept: KeptLogs, pattern: str, who: Principal = ADA, **query: Any) -> Found:
    """The matches, each with its cursor, and the end."""
    matches: list[dict[str, Any]] = []
    event, last_id = "", ""
    async with kept.client(who).stream("GET", "/v1/log-search", params={"pattern": pattern, **query}) as answer:
        assert answer.status_code == 200, (await answer.aread()).decode()
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                last_id = value
            elif name == "data" and event == "match":
                matches.append({**json.loads(value), "cursor": last_id})
            elif name == "data" and event == "end":
                return matches, json.loads(value)
    raise AssertionError("no end")


def texts(found: Found) -> list[str]:
    return [match["text"] for match in found[0]]


async def test_lines_are_found_in_all_replicas_of_a_job(kept: KeptLogs):
    job = await logged(kept, [b"one\nthe needle 0\n", b"nothing\n", b"\x1b[31mthe nee\x1b[0mdle 2\r\n"])
    matches, end = await search(kept, "needle", job=job)
    assert [(match["index"], match["offset"], match["text"]) for match in matches] == [
        (0, 4, "the needle 0"),
        (2, 0, "the needle 2"),
    ]
    assert matches[0]["job"] == job
    assert matches[0]["time"].startswith("2026-")
    assert (end["complete"], end["next"], end["matches"]) == (True, None, 2)


async def test_expressions_case_and_replicas(kept: KeptLogs):
    job = await logged(kept, [b"Loss 0.5\nloss 1.5\n", b"LOSS 2.5\n"])
    assert texts(await search(kept, r"^loss \d\.5$", job=job, regex=True)) == ["loss 1.5"]
    assert len(texts(await search(kept, "loss", job=job, ignoreCase=True))) == 3
    assert texts(await search(kept, "loss", job=job, ignoreCase=True, index=1)) == ["LOSS 2.5"]
    assert texts(await search(kept, "loss", job=job, role="master")) == []


async def test_a_limit_stops_and_the_cursor_goes_on_behind_it(kept: KeptLogs):
    job = await logged(kept, [b"".join(b"needle %d\n" % n for n in range(5)), b"needle x\n"])
    matches, end = await search(kept, "needle", job=job, limit=2)
    assert [match["text"] for match in matches] == ["needle 0", "needle 1"]
    assert not end["complete"]
    assert end["next"] == matches[-1]["cursor"]
    rest = await search(kept, "needle", job=job, cursor=end["next"])
    assert texts(rest) == ["needle 2", "needle 3", "needle 4", "needle x"]
    assert texts(await search(kept, "needle", job=job, cursor=rest[0][-1]["cursor"])) == []


async def test_all_own_jobs_are_searched_newest_first_and_gone_on_with(kept: KeptLogs):
    for number in range(3):
        await logged(kept, [b"needle %d\n" % number], name=f"job-{number}")
    await logged(kept, [b"needle of ann\n"], ANN)
    matches, end = await search(kept, "needle", limit=2)
    assert [match["text"] for match in matches] == ["needle 2", "needle 1"]
    await logged(kept, [b"needle of a new job\n"], name="new")
    assert texts(await search(kept, "needle", cursor=end["next"])) == ["needle 0"]
    assert texts(await search(kept, "needle", ANN)) == ["needle of ann"]


async def test_a_project_is_searched_by_those_who_see_it(kept: KeptLogs):
    store = CatalogStore(kept.bus)
    for name in ("ann", "bob"):
        await store.put(made(User, name, {}), expected=0)
    await logged(kept, [b"needle\n"], ANN, project="vision")
    assert texts(await search(kept, "needle", BOB, project="vision")) == []
    await store.put(project("vision", owner="ann", users=["bob"]), expected=0)
    assert texts(await search(kept, "needle", BOB, project="vision")) == ["needle"]
    assert texts(await search(kept, "needle", BOB)) == []


async def test_nobody_searches_a_foreign_job_by_any_way(kept: KeptLogs):
    job = await logged(kept, [b"needle\nneedle again\n"], ANN)
    answer = await kept.client(BOB).get("/v1/log-search", params={"pattern": "needle", "job": job})
    assert answer.status_code == 404
    (match, _), _ = await search(kept, "needle", ANN)
    assert texts(await search(kept, "needle", BOB, cursor=match["cursor"])) == []
    own = await logged(kept, [b"nothing\n"], BOB, "own")
    assert texts(await search(kept, "needle", BOB, job=own, cursor=match["cursor"])) == []


async def test_only_what_was_seen_in_a_time_is_found(kept: KeptLogs):
    job = await logged(kept, [b"needle\n"])
    assert texts(await search(kept, "needle", job=job, until="2026-01-01T00:00:00Z")) == []


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"pattern": "("}, "/query/pattern"),
        ({"pattern": "a{1,9}\\1"}, "/query/pattern"),
        ({"pattern": "x" * 600}, "/query/pattern"),
        ({"pattern": "x", "cursor": "nonsense"}, "/query/cursor"),
        ({"pattern": "x", "limit": 0}, "/query/limit"),
        ({}, "/query/pattern"),
    ],
)
async def test_what_cannot_be_searched_is_told(kept: KeptLogs, query: dict[str, Any], pointer: str):
    answer = await kept.client().get("/v1/log-search", params={"regex": "true", **query})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


async def test_a_search_that_was_cut_off_resumes_by_the_last_id(kept: KeptLogs):
    job = await logged(kept, [b"needle 0\nneedle 1\n"])
    matches, _ = await search(kept, "needle", job=job)
    headers = {"Last-Event-ID": matches[0]["cursor"]}
    answer = await kept.client().get("/v1/log-search", params={"pattern": "needle", "job": job}, headers=headers)
    assert '"needle 1"' in answer.text
    assert '"needle 0"' not in answer.text


async def test_a_search_needs_a_token(kept: KeptLogs, bus: Bus):
    client = kept.client()
    del client.headers["authorization"]
    assert (await client.get("/v1/log-search", params={"pattern": "x"})).status_code == 401
