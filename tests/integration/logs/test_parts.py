"""Parts of logs by line and by time, lines of several replicas by time, whole logs as files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import zstandard

from shared.bus import Bus
from shared.clock import rfc3339
from shared.logs_wire import Chunk
from tests.support.logs import KeptLogs, log_of, publish, submit

T0_MS = 1_790_000_000_000


def at(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(T0_MS / 1000 + seconds, UTC))


async def written(bus: Bus, job: str, lines: dict[float, bytes], index: int = 0) -> None:
    """A log whose lines were seen at these seconds."""
    offset = 0
    for seconds, line in lines.items():
        times = ((offset, T0_MS + int(seconds * 1000)),)
        await publish(bus, Chunk(log_of(job, index), offset, line, times=times))
        offset += len(line)
    await publish(bus, Chunk(log_of(job, index), offset, end=offset))


async def get(kept: KeptLogs, path: str, **query: Any) -> httpx.Response:
    return await kept.client().get(path, params={name: str(value) for name, value in query.items()})


@pytest.fixture
async def job(kept: KeptLogs) -> str:
    job = await submit(kept.bus)
    await written(kept.bus, job, {second: b"line %d\n" % (second + 1) for second in range(10)})
    await kept.until_ended(job)
    return job


async def test_a_part_may_begin_at_a_line_and_have_so_many(kept: KeptLogs, job: str):
    path = f"/v1/logs/{job}/1/worker/0"
    assert (await get(kept, path, line=3, lines=2)).text == "line 3\nline 4\n"
    assert (await get(kept, path, line=9)).text == "line 9\nline 10\n"
    assert (await get(kept, path, line=1, lines=1)).text == "line 1\n"
    assert (await get(kept, path, line=100)).text == ""
    assert (await get(kept, path, offset=14, lines=1)).text == "line 3\n"


async def test_a_part_may_begin_and_end_at_a_time(kept: KeptLogs, job: str):
    path = f"/v1/logs/{job}/1/worker/0"
    assert (await get(kept, path, since=at(7))).text == "line 8\nline 9\nline 10\n"
    assert (await get(kept, path, since=at(6.5), until=at(8))).text == "line 8\nline 9\n"
    assert (await get(kept, path, until=at(1))).text == "line 1\nline 2\n"
    assert (await get(kept, path, since=at(60))).text == ""


@pytest.mark.parametrize(
    "query",
    [{"line": 0}, {"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}, {"line": 1, "offset": 0}, {"lines": 0}],
)
async def test_what_is_no_part_is_refused(kept: KeptLogs, job: str, query: dict[str, Any]):
    answer = await get(kept, f"/v1/logs/{job}/1/worker/0", **query)
    assert answer.status_code == 422


async def test_lines_of_all_replicas_come_by_time_page_by_page(kept: KeptLogs):
    job = await submit(kept.bus, replicas=3)
    for index in range(3):
        await written(kept.bus, job, {10 * n + index: b"w%d says %d\r\n" % (index, n) for n in range(4)}, index)
    await kept.until_ended(job, 3)
    said, cursor = [], None
    while True:
        answer = await get(kept, f"/v1/logs/{job}/lines", limit=5, **({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["attempt"] == 1
        said += [(line["index"], line["time"], line["text"]) for line in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert said == [(index, at(10 * n + index), f"w{index} says {n}") for n in range(4) for index in range(3)]


async def test_lines_of_a_time_and_of_one_replica(kept: KeptLogs):
    job = await submit(kept.bus, replicas=2)
    for index in range(2):
        await written(kept.bus, job, {10 * n + index: b"w%d says %d\n" % (index, n) for n in range(4)}, index)
    await kept.until_ended(job, 2)
    page = (await get(kept, f"/v1/logs/{job}/lines", since=at(10), until=at(20))).json()
    assert [line["text"] for line in page["items"]] == ["w0 says 1", "w1 says 1", "w0 says 2"]
    assert page["next"] is None
    page = (await get(kept, f"/v1/logs/{job}/lines", index=1)).json()
    assert [line["text"] for line in page["items"]] == [f"w1 says {n}" for n in range(4)]


async def test_lines_that_come_later_are_on_the_next_page(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, b"first\nhalf a li"))
    await kept.until_sized(job, 15)
    page = (await get(kept, f"/v1/logs/{job}/lines")).json()
    assert [line["text"] for line in page["items"]] == ["first"]
    await publish(kept.bus, Chunk(log_of(job), 15, b"ne\n"), Chunk(log_of(job), 18, end=18))
    await kept.until_ended(job)
    page = (await get(kept, f"/v1/logs/{job}/lines", cursor=page["next"])).json()
    assert [line["text"] for line in page["items"]] == ["half a line"]
    assert page["next"] is None


COLOURED = b"\x1b[31mred\x1b[0m\n<script>alert(1)</script>\n" * 20_000


@pytest.fixture
async def coloured(kept: KeptLogs) -> str:
    job = await submit(kept.bus)
    for start in range(0, len(COLOURED), 60_000):
        await publish(kept.bus, Chunk(log_of(job), start, COLOURED[start : start + 60_000]))
    await publish(kept.bus, Chunk(log_of(job), len(COLOURED), end=len(COLOURED)))
    await kept.until_ended(job)
    return f"/v1/logs/{job}/1/worker/0/download"


async def test_a_log_is_downloaded_as_text_or_as_it_was_written(kept: KeptLogs, coloured: str):
    text = COLOURED.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"")
    assert (await get(kept, coloured)).content == text
    assert (await get(kept, coloured, raw="true")).content == COLOURED
    for raw, content in (("false", text), ("true", COLOURED)):
        packed = (await get(kept, coloured, zstd="true", raw=raw)).content
        assert zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read() == content


async def test_raw_bytes_may_be_asked_for_in_ranges(kept: KeptLogs, coloured: str):
    async def ranged(header: str) -> httpx.Response:
        return await kept.client().get(coloured, params={"raw": "true"}, headers={"Range": header})

    size = len(COLOURED)
    part = await ranged("bytes=5-600000")
    assert (part.status_code, part.content) == (206, COLOURED[5:600_001])
    assert part.headers["content-range"] == f"bytes 5-600000/{size}"
    assert (await ranged("bytes=-10")).content == COLOURED[-10:]
    assert (await ranged(f"bytes={size - 3}-")).content == COLOURED[-3:]
    gone = await ranged(f"bytes={size}-")
    assert (gone.status_code, gone.headers["content-range"]) == (416, f"bytes */{size}")
    for passed_over in ("bytes=0-1,5-6", "lines=1-2", "bytes=7-5", "bytes=-"):
        assert (await ranged(passed_over)).status_code == 200


@pytest.mark.parametrize("path", ["", "/download", "/download?raw=true", "/download?zstd=true", "?raw=true"])
async def test_no_browser_takes_a_log_for_a_page(kept: KeptLogs, coloured: str, path: str):
    answer = await kept.client().get(coloured.removesuffix("/download") + path)
    assert answer.headers["content-type"].split(";")[0] in (
        "text/plain",
        "application/octet-stream",
        "application/zstd",
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    if "download" in path:
        assert answer.headers["content-disposition"].startswith("attachment")


async def test_no_answer_of_any_route_is_guessed_at(kept: KeptLogs, coloured: str):
    job = coloured.split("/")[3]
    for path in (
        f"/v1/logs/{job}",
        f"/v1/logs/{job}/lines",
        f"/v1/log-search?pattern=script&job={job}&limit=1",
        "/v1/x",
    ):
        answer = await kept.client().get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "html" not in answer.headers["content-type"]


async def test_following_may_be_raw(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, b"\x1b[31mred\x1b[0m\r50%\n"))
    texts = {}
    for raw in ("true", "false"):
        async with kept.client().stream("GET", f"/v1/logs/{job}/follow", params={"raw": raw}) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    texts[raw] = httpx.Response(200, content=line.removeprefix("data: ")).json()["text"]
                    break
    assert texts == {"true": "\x1b[31mred\x1b[0m\r50%\n", "false": "red\n50%\n"}
