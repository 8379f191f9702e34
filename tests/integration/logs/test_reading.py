"""Reading a log over HTTP: any part, cleaned or raw, whatever is in it."""

from __future__ import annotations

import os

from shared.logs_wire import CHUNK_MAX_BYTES, Chunk
from tests.support.logs import KeptLogs, log_of, publish, submit

MIB = 1 << 20


async def kept_log(kept: KeptLogs, content: bytes, chunk_bytes: int = CHUNK_MAX_BYTES) -> str:
    """A job with a complete log."""
    job = await submit(kept.bus)
    file = log_of(job)
    for at in range(0, len(content), chunk_bytes):
        await publish(kept.bus, Chunk(file, at, content[at : at + chunk_bytes]))
    await publish(kept.bus, Chunk(file, len(content), end=len(content)))
    await kept.until_ended(job)
    return job


async def read(kept: KeptLogs, job: str, **query: object):
    answer = await kept.client().get(f"/v1/logs/{job}/1/worker/0", params={k: str(v) for k, v in query.items()})
    assert answer.status_code == 200, answer.text
    return answer


async def test_a_log_is_listed_with_size_and_end(kept: KeptLogs):
    job = await submit(kept.bus)
    assert await kept.sizes(job) == {}
    await publish(kept.bus, Chunk(log_of(job), 0, b"hello\n"), Chunk(log_of(job), 6, end=6))
    await kept.until_ended(job)
    assert await kept.sizes(job) == {(1, "worker", 0): (6, True)}


async def test_parts_follow_each_other_by_offset(kept: KeptLogs):
    content = b"".join(b"line %d\n" % number for number in range(1000))
    job = await kept_log(kept, content)
    text, offset = b"", 0
    while True:
        answer = await read(kept, job, offset=offset, limit=1000)
        assert answer.headers["tm-offset"] == str(offset)
        assert answer.headers["tm-size"] == str(len(content))
        assert answer.headers["tm-ended"] == "true"
        assert len(answer.content) <= 1000
        if not answer.content:
            break
        text, offset = text + answer.content, int(answer.headers["tm-next-offset"])
    assert text == content


async def test_the_whole_log_comes_where_no_limit_is_given(kept: KeptLogs):
    content = b"".join(b"%06d %s\n" % (number, b"x" * 90) for number in range(20_000))
    job = await kept_log(kept, content)
    answer = await read(kept, job)
    assert answer.content == content
    assert answer.headers["tm-next-offset"] == str(len(content))
    assert (await read(kept, job, offset=len(content) - 50)).content == content[-50:]


async def test_the_tail_is_the_last_lines(kept: KeptLogs):
    content = b"".join(b"line %d\n" % number for number in range(30_000))
    job = await kept_log(kept, content)
    assert (await read(kept, job, tail=2)).content == b"line 29998\nline 29999\n"
    assert (await read(kept, job, tail=0)).content == b""
    assert (await read(kept, job, tail=20_000)).content.count(b"\n") == 20_000
    assert (await read(kept, job, tail=100_000)).content == content


async def test_progress_bars_are_lines_and_colours_are_gone(kept: KeptLogs):
    content = b"\x1b[32mepoch 1\x1b[0m\n" + b"".join(b"\r %3d%%" % done for done in range(0, 101, 10)) + b"\ndone\n"
    job = await kept_log(kept, content)
    text = (await read(kept, job)).text
    assert text.splitlines()[0] == "epoch 1"
    assert text.splitlines()[-1] == "done"
    assert "\x1b" not in text
    assert "\r" not in text
    assert (await read(kept, job, tail=2)).text == " 100%\ndone\n"
    assert (await read(kept, job, raw="true")).content == content


async def test_characters_and_sequences_that_chunks_cut_in_two_are_whole(kept: KeptLogs):
    content = "训练损失 \x1b[31m0.5\x1b[0m\r\n".encode() * 10
    job = await kept_log(kept, content, chunk_bytes=7)
    assert (await read(kept, job)).text == "训练损失 0.5\n" * 10
    text, offset = "", 0
    while offset < len(content):
        answer = await read(kept, job, offset=offset, limit=9)
        text, offset = text + answer.text, int(answer.headers["tm-next-offset"])
    assert text == "训练损失 0.5\n" * 10


async def test_binary_garbage_is_kept_as_it_is_and_shown_as_text(kept: KeptLogs):
    content = os.urandom(300_000)
    job = await kept_log(kept, content)
    assert await kept.raw(job) == content
    text = (await read(kept, job)).text
    assert not any(ord(char) < 32 and char not in "\t\n" for char in text)


async def test_a_log_that_is_being_written_is_shown_up_to_what_can_be_told(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(log_of(job), 0, "loss ö".encode()[:-1]))
    await kept.until_sized(job, 6)
    answer = await read(kept, job)
    assert answer.text == "loss "
    assert answer.headers["tm-next-offset"] == "5"
    assert answer.headers["tm-ended"] == "false"
    assert (await read(kept, job, offset=5)).text == ""
    assert (await read(kept, job, raw="true")).content == "loss ö".encode()[:-1]


async def test_a_line_without_an_end_of_many_megabytes_is_read_in_parts(kept: KeptLogs):
    content = b"x" * (20 * MIB)
    job = await kept_log(kept, content)
    tail = await read(kept, job, tail=1)
    assert len(tail.content) == 8 * MIB
    assert tail.headers["tm-offset"] == str(12 * MIB)
    assert len((await read(kept, job, tail=1, limit=1000)).content) == 1000
    assert (await read(kept, job, offset=MIB, limit=MIB)).content == content[:MIB]


async def test_html_never_runs(kept: KeptLogs):
    job = await kept_log(kept, b"<script>alert(1)</script>")
    answer = await read(kept, job)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_wrong_query_is_told_by_place(kept: KeptLogs):
    job = await kept_log(kept, b"hello\n")
    wrong = {
        "offset=-1": "/query/offset",
        "offset=x": "/query/offset",
        "offset=7": "/query/offset",
        "limit=0": "/query/limit",
        "tail=-1": "/query/tail",
        "tail=1000000": "/query/tail",
        "raw=perhaps": "/query/raw",
        "rows=3": "/query/rows",
        "offset=1&tail=1": "/query",
    }
    answers = {query: await kept.client().get(f"/v1/logs/{job}/1/worker/0?{query}") for query in wrong}
    assert {answer.status_code for answer in answers.values()} == {422}
    pointers = {query: [error["pointer"] for error in answer.json()["errors"]] for query, answer in answers.items()}
    assert pointers == {query: [pointer] for query, pointer in wrong.items()}


async def test_a_log_that_is_not_there_is_not_found(kept: KeptLogs):
    job = await kept_log(kept, b"hello\n")
    paths = ("2/worker/0", "1/worker/1", "1/master/0", "1/..%2f..%2fworker/0", "1/worker", "1/%2e%2e/0")
    statuses = {path: (await kept.client().get(f"/v1/logs/{job}/{path}")).status_code for path in paths}
    assert statuses == dict.fromkeys(paths, 404)
    assert (await kept.client().get(f"/v1/logs/{job}/0/worker/0")).status_code == 422
