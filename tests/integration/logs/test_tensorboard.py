"""The real TensorBoard, opened, looked at as a browser would, and out of reach of everybody else."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.logs.tensorboard.sandbox import find_sandbox
from shared import events as ev
from shared.auth.principal import Principal
from shared.bus import Bus
from shared.ids import UserId
from shared.logs_wire import Chunk, FileRef, ReplicaRef
from tests.support.event_files import scalars
from tests.support.logs import ADA, KeptLogs, publish, submit, tell
from tests.support.services import eventually

EVE = Principal(UserId("u-eve"), "eve")
ADMIN = Principal(UserId("u-admin"), "root", admin=True)
NEEDS_SANDBOX = pytest.mark.skipif(not find_sandbox().sandboxed, reason="bubblewrap does not work here")


def event_file(job: str, attempt: int = 1) -> FileRef:
    return FileRef(ReplicaRef(job, attempt, "worker", 0), "tb", "train/events.out.tfevents.1")


async def stored(kept: KeptLogs, job: str, attempt: int = 1) -> None:
    """Records of an attempt, durable."""
    await publish(kept.bus, Chunk(event_file(job, attempt), 0, scalars("loss", [0.5, 0.25])))

    async def look() -> bool | None:
        answer = await kept.client().get(f"/v1/scalars/{job}", params={"attempt": attempt})
        return bool(answer.json()["tags"]) or None

    await eventually(look)


async def opened(kept: KeptLogs, *jobs: str, principal: Principal = ADA, **more: Any) -> httpx.Response:
    return await kept.client(principal).post("/v1/tensorboard", json={"jobs": list(jobs), **more})


@asynccontextmanager
async def browser(kept: KeptLogs) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody without a token who keeps cookies."""
    async with httpx.AsyncClient(base_url=kept.url, timeout=30) as client:
        yield client


async def until_runs(client: httpx.AsyncClient, url: str, *runs: str) -> None:
    async def look() -> bool | None:
        answer = await client.get(f"{url}data/runs")
        assert answer.status_code == 200, answer.text
        return True if answer.json() == sorted(runs) else None

    await eventually(look, 40)


async def test_a_browser_gets_in_by_a_ticket_and_sees_attempts_side_by_side(kept: KeptLogs):
    job = await submit(kept.bus)
    await stored(kept, job)
    answer = await opened(kept, job)
    assert answer.status_code == 200, answer.text
    board = answer.json()
    assert board["runs"] == [{"name": "attempt-1", "job": job, "attempt": 1}]
    url = board["url"]
    async with browser(kept) as client:
        entered = await client.get(board["ticket"])
        assert (entered.status_code, entered.headers["location"]) == (303, url)
        cookie = entered.headers["set-cookie"]
        assert f"Path={url}" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        page = await client.get(url)
        assert page.status_code == 200
        assert "<tf-tensorboard" in page.text or "tb-relative-root" in page.text
        assert "set-cookie" not in page.headers
        script = await client.get(f"{url}index.js")
        assert "javascript" in script.headers["content-type"]
        assert len(script.content) > 100_000
        await until_runs(client, url, "attempt-1/train")
        packed = await client.get(f"{url}data/runs")
        plain = await client.get(f"{url}data/runs", headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers.get("content-encoding", "identity") == "identity"
        form = {"requests": (None, json.dumps([{"plugin": "scalars", "tag": "loss"}]))}
        series = await client.post(f"{url}experiment/defaultExperimentId/data/plugin/timeseries/timeSeries", files=form)
        (found,) = series.json()
        points = found["runToSeries"]["attempt-1/train"]
        assert [point["value"] for point in points] == [0.5, 0.25]
        assert (await client.get(url.rstrip("/"))).headers["location"] == url

        # A second attempt comes while TensorBoard runs.
        ended = ev.AttemptEnded(reason="hang"), ev.RetryDecided(retry=True, reason="hang")
        await tell(kept.bus, job, ev.Started(), *ended)
        await tell(kept.bus, job, ev.Queued(), attempt=2)
        await stored(kept, job, attempt=2)
        await until_runs(client, url, "attempt-1/train", "attempt-2-after-hang/train")

        again = await client.get(board["ticket"])
        assert again.status_code == 401
        assert "trainmaster tensorboard" in again.json()["detail"]
    async with browser(kept) as other:
        assert (await other.get(url)).status_code == 401
        assert (await other.get(url, headers={"Cookie": "tm-tensorboard=made-up"})).status_code == 401
    await check_that_it_is_out_of_reach(kept, job, board)
    assert (await kept.client().delete(f"/v1/tensorboard/{board['id']}")).status_code == 204
    assert (await kept.client().get("/v1/tensorboard")).json() == {"items": []}


async def check_that_it_is_out_of_reach(kept: KeptLogs, job: str, board: dict[str, Any]) -> None:
    """Of a stranger, by any id, path or method."""
    stranger = kept.client(EVE)
    assert (await opened(kept, job, principal=EVE)).status_code == 404
    assert (await opened(kept, "demo", principal=EVE)).status_code == 404
    assert (await stranger.get("/v1/tensorboard")).json() == {"items": []}
    for path in ("", "data/runs", "../../logs/" + job):
        assert (await stranger.get(board["url"] + path)).status_code in (401, 404)
    assert (await stranger.delete(f"/v1/tensorboard/{board['id']}")).status_code == 404
    for principal in (ADA, ADMIN):
        assert (await kept.client(principal).get(board["url"] + "data/runs")).status_code == 200
        listed = (await kept.client(principal).get("/v1/tensorboard")).json()["items"]
        assert [each["id"] for each in listed] == [board["id"]]


@NEEDS_SANDBOX
async def test_a_directory_on_a_mount_is_shown_and_nothing_that_it_points_to(kept: KeptLogs, tmp_path: Path):
    """The projector plugin opens any path that a file in the directory names; here it must find nothing."""
    storage, secret = tmp_path / "storage", tmp_path / "secret.tsv"
    runs = storage / "out" / "runs"
    runs.mkdir(parents=True)
    secret.write_text("the secret\n")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "events.out.tfevents.9").write_bytes(scalars("theirs", [1.0]))
    (runs / "events.out.tfevents.1").write_bytes(scalars("mine", [1.0, 2.0]))
    (runs / "linked").symlink_to(tmp_path / "others")
    (runs / "tensor.tsv").write_text("1.0\t2.0\n")
    (runs / "labels.tsv").write_text("my own labels\n")
    (runs / "projector_config.pbtxt").write_text(
        f'embeddings {{ tensor_name: "x" tensor_path: "tensor.tsv" metadata_path: "{secret}" }}\n'
        'embeddings { tensor_name: "y" tensor_path: "tensor.tsv" metadata_path: "labels.tsv" }\n'
    )
    job = await submit(kept.bus, mounts=(mount_of(storage),))
    answer = await opened(kept, job, dir="/mnt/data/out/runs")
    assert answer.status_code == 200, answer.text
    board = answer.json()
    client = kept.client()
    await until_runs(client, board["url"], "records")
    projector = board["url"] + "data/plugin/projector/metadata?run=records&num_rows=5&name="
    assert "my own labels" in (await client.get(projector + "y")).text
    answer = await client.get(projector + "x")
    assert answer.status_code != 200
    assert "the secret" not in answer.text
    refused = await opened(kept, job, dir="/etc")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/dir"
    both = await opened(kept, job, await submit(kept.bus, "other"), dir="/mnt/data/out")
    assert both.json()["errors"][0]["code"] == "one-job-only"


def mount_of(storage: Path) -> ev.ResolvedMount:
    return ev.ResolvedMount(
        mount_path="/mnt/data", type="storage", source="data", uri=f"file://{storage}", root=f"file://{storage}"
    )


async def test_a_missing_tensorboard_is_told_with_the_command_that_installs_it(
    kept: KeptLogs, monkeypatch: pytest.MonkeyPatch
):
    job = await submit(kept.bus)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    answer = await opened(kept, job)
    assert answer.status_code == 503
    assert "pip install tensorboard" in answer.json()["detail"]


async def test_what_makes_no_board_is_told_by_place(kept: KeptLogs, bus: Bus):
    job = await submit(bus)
    answer = await kept.client().post("/v1/tensorboard", json={"jobs": [], "dir": "runs", "attempts": [0], "port": 1})
    places = {error["pointer"] for error in answer.json()["errors"]}
    assert places == {"/jobs", "/dir", "/attempts/0", "/port"}
    assert (await kept.client().get("/v1/tensorboard/tb-nonsense/")).status_code == 422
    assert (await kept.client().get(f"/v1/tensorboard/tb-{'a' * 20}/")).status_code == 404
    assert (await kept.client().get(f"/v1/tensorboard/{job}/x")).status_code == 422
