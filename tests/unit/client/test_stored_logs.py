"""Lines by time, searches and downloads, against a scripted platform."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_json
from trainmaster.client import Client
from trainmaster.documents import LogSource
from trainmaster.errors import UnreachableError
from trainmaster.sse import Patience
from trainmaster.stored_logs import LogLine, LogSearch, SearchEnd

WORKER = LogSource(1, "worker", 0, 6, ended=True)
DOWNLOAD = "/v1/logs/mnist/1/worker/0/download"


@pytest.fixture
def api(platform: FakePlatform) -> FakePlatform:
    return platform


@pytest.fixture
def client(platform: FakePlatform) -> Iterator[Client]:
    with Client(platform.url, "token", patience=Patience(pause=lambda _seconds: None)) as client:
        yield client


def line(text: str, offset: int = 0) -> dict[str, object]:
    return {"role": "worker", "index": 0, "offset": offset, "time": "2026-01-01T00:00:00.000Z", "text": text}


def match(text: str, cursor: str) -> bytes:
    data = json.dumps({**line(text), "job": "tj-a", "attempt": 1})
    return f"id: {cursor}\nevent: match\ndata: {data}\n\n".encode()


def end(cursor: str | None) -> bytes:
    data = json.dumps({"matches": 2, "searched_bytes": 10, "complete": cursor is None, "next": cursor})
    return f"event: end\ndata: {data}\n\n".encode()


def stream(*events: bytes, breaks: bool = False) -> Answer:
    return Answer(200, headers={"Content-Type": "text/event-stream"}, pieces=events, breaks=breaks)


def texts(found: list[LogLine | SearchEnd]) -> list[str]:
    return [each.text for each in found if isinstance(each, LogLine)]


def test_lines_come_page_by_page(api: FakePlatform, client: Client) -> None:
    first = of_json({"attempt": 2, "items": [line("one")], "next": "c1"})
    api.on("GET", "/v1/logs/mnist/lines", first, of_json({"attempt": 2, "items": [line("two")], "next": None}))
    lines = list(client.stored_logs.lines("mnist", since="2026-01-01T00:00:00Z"))
    assert [(each.text, each.attempt, each.job) for each in lines] == [("one", 2, "mnist"), ("two", 2, "mnist")]
    assert api.requests[1].query["cursor"] == ["c1"]


def test_lines_of_a_running_job_end_where_there_are_no_more(api: FakePlatform, client: Client) -> None:
    api.on("GET", "/v1/logs/mnist/lines", of_json({"attempt": 1, "items": [], "next": "c1"}))
    assert list(client.stored_logs.lines("mnist")) == []


def test_a_search_gives_matches_and_its_end(api: FakePlatform, client: Client) -> None:
    api.on("GET", "/v1/log-search", stream(match("a", "c1"), match("b", "c2"), end("c2")))
    found = list(client.stored_logs.search(LogSearch("x", regex=True, job="mnist", limit=2)))
    assert texts(found) == ["a", "b"]
    assert found[-1] == SearchEnd(2, 10, "c2")
    assert api.requests[0].query == {"pattern": ["x"], "regex": ["true"], "job": ["mnist"], "limit": ["2"]}


def test_a_search_goes_on_where_its_connection_broke(api: FakePlatform, client: Client) -> None:
    api.on("GET", "/v1/log-search", stream(match("a", "c1"), breaks=True), stream(match("b", "c2"), end(None)))
    assert texts(list(client.stored_logs.search(LogSearch("x")))) == ["a", "b"]
    assert api.requests[1].headers["Last-Event-ID"] == "c1"


def test_a_download_goes_on_where_it_broke(api: FakePlatform, client: Client) -> None:
    broken = Answer(200, pieces=[b"abc"], breaks=True)
    api.on("GET", DOWNLOAD, broken, Answer(206, b"def"))
    target = io.BytesIO()
    assert client.stored_logs.download("mnist", WORKER, target, raw=True) == 6
    assert target.getvalue() == b"abcdef"
    assert api.requests[1].headers["Range"] == "bytes=3-"


def test_a_packed_download_that_breaks_is_told(api: FakePlatform, client: Client) -> None:
    api.on("GET", DOWNLOAD, Answer(200, pieces=[b"abc"], breaks=True))
    with pytest.raises(UnreachableError):
        client.stored_logs.download("mnist", WORKER, io.BytesIO(), zstd=True)
