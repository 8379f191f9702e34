"""The curves of a job, from its event files as they grow."""

from __future__ import annotations

import math

from shared.logs_wire import Chunk, FileRef, ReplicaRef
from tests.support.event_files import event, scalars, simple_value, version
from tests.support.logs import KeptLogs, publish, submit
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
    assert curve["points"] == [
        {"step": 0, "time": "2023-11-14T22:13:20.000Z", "value": 0.5},
        {"step": 1, "time": "2023-11-14T22:13:21.000Z", "value": 0.25},
    ]


async def test_a_file_that_grows_is_read_on_even_within_a_record(kept: KeptLogs):
    job = await submit(kept.bus)
    data = version() + scalars("loss", [0.5, 0.25, 0.125])
    await publish(kept.bus, Chunk(event_file(job), 0, data[:-20]))
    await until(kept, job, 2)
    await publish(kept.bus, Chunk(event_file(job), len(data) - 20, data[-20:]))
    (curve,) = await until(kept, job, 3)
    assert [point["value"] for point in curve["points"]] == [0.5, 0.25, 0.125]


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
    assert [point["value"] for point in found[0]["points"]] == [1.0, 2.0, 3.0]
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
    assert [point["value"] for point in curve["points"]] == [1.0]
    assert await curves(kept, job, attempt=3) == []


async def test_values_that_are_no_numbers_are_null(kept: KeptLogs):
    job = await submit(kept.bus)
    data = scalars("loss", [math.nan, math.inf, 1.0]) + event(1e300, 4, simple_value("loss", 2.0))
    await publish(kept.bus, Chunk(event_file(job), 0, data))
    (curve,) = await until(kept, job, 4)
    assert [point["value"] for point in curve["points"]] == [None, None, 1.0, 2.0]
    assert curve["points"][-1]["time"] is None


async def test_a_damaged_file_gives_what_was_before_the_damage(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(
        kept.bus, Chunk(event_file(job), 0, scalars("loss", [1.0]) + b"garbage" * 10 + scalars("loss", [2.0]))
    )
    (curve,) = await until(kept, job, 1)
    assert [point["value"] for point in curve["points"]] == [1.0]


async def test_a_wrong_query_is_told_by_place(kept: KeptLogs):
    job = await submit(kept.bus)
    answer = await kept.client().get(f"/v1/scalars/{job}?attempt=0&smooth=1")
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/query/attempt", "/query/smooth"}
