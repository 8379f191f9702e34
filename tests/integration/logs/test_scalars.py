"""The curves of a job, from its event files as they grow."""

from __future__ import annotations

import json
import math

from shared.auth.principal import Principal
from shared.ids import UserId
from shared.logs_wire import Chunk, FileRef, ReplicaRef
from tests.support.event_files import event, scalars, simple_value, version
from tests.support.logs import KeptLogs, publish, start_and_end, submit
from tests.support.services import eventually


def event_file(job: str, path: str = "events.out.tfevents.1", attempt: int = 1) -> FileRef:
    return FileRef(ReplicaRef(job, attempt, "worker", 0), "tb", path)


async def curves(kept: KeptLogs, job: str, **query: object) -> list[dict]:
    answer = await kept.client().get(f"/v1/scalars/{job}", params={k: str(v) for k, v in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()["tags"]


async def until(kept: KeptLogs, job: str, points: int) -> list[dict]:
    async def look() -> list[dict] | None:
        found = await curves(kept, job)
        return found if sum(curve["count"] for curve in found) == points else None

    return await eventually(look)


async def test_points_have_step_time_and_value(kept: KeptLogs):
    job = await submit(kept.bus)
    assert await curves(kept, job) == []
    await publish(kept.bus, Chunk(event_file(job), 0, version() + scalars("loss", [0.5, 0.25])))
    (curve,) = await until(kept, job, 2)
    assert (curve["tag"], curve["run"], curve["attempt"]) == ("loss", "", 1)
    assert curve["steps"] == [0, 1]
    assert curve["times"] == ["2023-11-14T22:13:20.000Z", "2023-11-14T22:13:21.000Z"]
    assert curve["values"] == [0.5, 0.25]


async def test_a_file_that_grows_is_read_on_even_within_a_record(kept: KeptLogs):
    job = await submit(kept.bus)
    data = version() + scalars("loss", [0.5, 0.25, 0.125])
    await publish(kept.bus, Chunk(event_file(job), 0, data[:-20]))
    await until(kept, job, 2)
    await publish(kept.bus, Chunk(event_file(job), len(data) - 20, data[-20:]))
    (curve,) = await until(kept, job, 3)
    assert curve["values"] == [0.5, 0.25, 0.125]


async def test_runs_are_told_apart_and_the_files_of_one_run_are_one_curve(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(
        kept.bus,
        Chunk(event_file(job, "train/1.tfevents"), 0, scalars("loss", [1.0, 2.0])),
        Chunk(event_file(job, "train/2.tfevents"), 0, scalars("loss", [3.0], first_step=2)),
        Chunk(event_file(job, "val/1.tfevents"), 0, scalars("loss", [9.0]) + scalars("acc", [0.5])),
    )
    found = await until(kept, job, 5)
    assert [(curve["run"], curve["tag"]) for curve in found] == [("train", "loss"), ("val", "acc"), ("val", "loss")]
    assert found[0]["values"] == [1.0, 2.0, 3.0]
    only = await curves(kept, job, tag="acc")
    assert [curve["tag"] for curve in only] == ["acc"]


async def test_the_last_attempt_that_has_any_is_the_default(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(event_file(job), 0, scalars("loss", [1.0])))
    await until(kept, job, 1)
    await publish(kept.bus, Chunk(event_file(job, attempt=2), 0, scalars("loss", [2.0, 3.0])))
    (curve,) = await until(kept, job, 2)
    assert curve["attempt"] == 2
    (curve,) = await curves(kept, job, attempt=1)
    assert curve["values"] == [1.0]
    assert await curves(kept, job, attempt=3) == []
    both = await curves(kept, job, attempt="all")
    assert [(curve["attempt"], curve["values"]) for curve in both] == [(1, [1.0]), (2, [2.0, 3.0])]
    assert await curves(kept, job, attempt="1,2") == both


async def test_values_that_are_no_numbers_are_null(kept: KeptLogs):
    job = await submit(kept.bus)
    data = scalars("loss", [math.nan, math.inf, 1.0]) + event(1e300, 4, simple_value("loss", 2.0))
    await publish(kept.bus, Chunk(event_file(job), 0, data))
    (curve,) = await until(kept, job, 4)
    assert curve["values"] == [None, None, 1.0, 2.0]
    assert curve["times"][-1] is None


async def test_a_damaged_file_gives_what_was_before_the_damage(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(
        kept.bus, Chunk(event_file(job), 0, scalars("loss", [1.0]) + b"garbage" * 10 + scalars("loss", [2.0]))
    )
    (curve,) = await until(kept, job, 1)
    assert curve["values"] == [1.0]


async def test_a_wrong_query_is_told_by_place(kept: KeptLogs):
    job = await submit(kept.bus)
    answer = await kept.client().get(f"/v1/scalars/{job}?attempt=0&smooth=1")
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/query/attempt", "/query/smooth"}


async def test_a_long_curve_comes_thinned_with_its_extremes_and_whole_as_csv(kept: KeptLogs):
    job = await submit(kept.bus)
    values = [0.0] * 300
    values[123] = 9.0
    await publish(kept.bus, Chunk(event_file(job), 0, scalars("=loss", values)))
    await until(kept, job, 300)
    (curve,) = await curves(kept, job, points=10)
    assert curve["count"] == 300
    assert len(curve["values"]) <= 10
    assert max(curve["values"]) == 9.0
    answer = await kept.client().get(f"/v1/scalars/{job}/csv")
    lines = answer.text.splitlines()
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert lines[0] == "attempt,run,tag,step,time,value"
    assert len(lines) == 301
    assert lines[124] == "1,,'=loss,123,2023-11-14T22:15:23.000Z,9.0"


async def test_the_list_of_tags_has_the_last_value_and_the_extremes(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(event_file(job), 0, scalars("loss", [2.0, math.nan, 0.5])))
    await until(kept, job, 3)
    answer = await kept.client().get(f"/v1/scalars/{job}/tags")
    assert answer.json()["items"] == [
        {
            "attempt": 1,
            "run": "",
            "tag": "loss",
            "count": 3,
            "lastStep": 2,
            "lastTime": "2023-11-14T22:13:22.000Z",
            "lastValue": 0.5,
            "lowest": 0.5,
            "highest": 2.0,
        }
    ]


async def test_points_are_followed_as_they_come_until_the_job_ends(kept: KeptLogs):
    job = await submit(kept.bus)
    data = scalars("loss", [1.0])
    await publish(kept.bus, Chunk(event_file(job), 0, data))
    await until(kept, job, 1)
    events: list[tuple[str, list[float]]] = []
    async with kept.client().stream("GET", f"/v1/scalars/{job}/follow") as answer:
        kind = ""
        async for line in answer.aiter_lines():
            name, _, rest = line.partition(": ")
            kind = rest if name == "event" else kind
            if name != "data":
                continue
            tags = json.loads(rest).get("tags", [])
            events.append((kind, [value for curve in tags for value in curve["values"]]))
            if kind == "curves":
                await publish(kept.bus, Chunk(event_file(job), len(data), scalars("loss", [2.0], first_step=1)))
            elif kind == "points":
                await start_and_end(kept.bus, job)
    assert events == [("curves", [1.0]), ("points", [2.0]), ("end", [])]


async def test_scalars_of_others_are_not_there_by_any_way(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(event_file(job), 0, scalars("loss", [1.0])))
    await until(kept, job, 1)
    stranger = kept.client(Principal(UserId("u-eve"), "eve"))
    for path in ("", "/tags", "/csv", "/follow"):
        for reference in (job, "demo"):
            answer = await stranger.get(f"/v1/scalars/{reference}{path}")
            assert answer.status_code == 404, answer.text
