"""Finished parts of logs in a real S3 API: moved there, read from there, and nothing lost while it fails or is slow."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from services.logs import mirroring as mirroring_module
from services.logs import settings as settings_module
from services.logs.adapters import compactor as compactor_module
from services.logs.adapters.archive import S3Archive
from shared import events as ev
from shared.bus import Bus
from shared.logs_wire import Chunk
from tests.support.event_files import scalars
from tests.support.logs import KeptLogs, keeping_logs, log_of, publish, start_and_end, submit, tell
from tests.support.s3 import S3, s3_server, stalling
from tests.support.services import eventually


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "S3Archive", partial(S3Archive, patience_s=1))
    monkeypatch.setattr(compactor_module, "_RETRY_S", 0.2)
    monkeypatch.setattr(compactor_module, "_LOOK_S", 0.1)


@asynccontextmanager
async def archiving(bus: Bus, home: Path, s3: S3, **chosen: Any) -> AsyncIterator[KeptLogs]:
    home.mkdir(parents=True, exist_ok=True)
    settings = {**s3.settings(home), "log_archive": f"s3://{s3.bucket}/{home.name}", **chosen}
    async with keeping_logs(bus, home, **settings) as kept:
        yield kept


async def finished(kept: KeptLogs, content: bytes, name: str = "demo") -> str:
    job = await submit(kept.bus, name)
    for at in range(0, len(content), 60_000):
        await publish(kept.bus, Chunk(log_of(job), at, content[at : at + 60_000]))
    await publish(kept.bus, Chunk(log_of(job), len(content), end=len(content)))
    await kept.until_ended(job)
    return job


async def until_archived(home: Path, job: str) -> None:
    async def look() -> bool | None:
        store = home / "logs" / "store" / job
        return True if store.exists() and not list(store.rglob("seg-*.zst")) else None

    await eventually(look, 20)


def objects(s3: S3, home: Path, job: str) -> dict[str, bytes]:
    return s3.contents(f"{home.name}/{job}/")


async def test_a_finished_log_moves_into_the_archive_and_is_read_from_there(bus: Bus, tmp_path: Path, s3: S3):
    content = os.urandom(300_000) + b"needle in the archive\n" + b"line\n" * 100_000
    async with archiving(bus, tmp_path / "a", s3) as kept:
        job = await finished(kept, content)
        await until_archived(tmp_path / "a", job)
        assert await kept.raw(job) == content
        assert await kept.raw(job, offset=299_990, limit=20) == content[299_990:300_010]
        answer = await kept.client().get("/v1/log-search", params={"pattern": "needle in", "job": job})
        assert "needle in the archive" in answer.text
        assert len(objects(s3, tmp_path / "a", job)) == 1


async def test_everything_is_known_again_from_the_archive_alone(bus: Bus, tmp_path: Path, s3: S3):
    content = b"step 1\n" * 60_000
    async with archiving(bus, tmp_path / "b", s3) as kept:
        job = await finished(kept, content)
        await until_archived(tmp_path / "b", job)
    place = {"log_archive": f"s3://{s3.bucket}/b"}
    async with archiving(bus, tmp_path / "elsewhere", s3, **place) as kept:
        assert await kept.sizes(job) == {(1, "worker", 0): (len(content), True)}
        assert await kept.raw(job) == content
        part = await kept.client().get(f"/v1/logs/{job}/1/worker/0", params={"line": 59_999})
        assert part.text == "step 1\n" * 2


async def test_a_deleted_job_leaves_nothing_in_the_archive(bus: Bus, tmp_path: Path, s3: S3):
    async with archiving(bus, tmp_path / "c", s3) as kept:
        job = await finished(kept, b"hello\n")
        await until_archived(tmp_path / "c", job)
        await start_and_end(bus, job)
        await tell(bus, job, ev.Deleted(by="u-ada"))

        async def look() -> bool | None:
            keys = s3.client.list_objects_v2(Bucket=s3.bucket, Prefix=f"c/{job}/").get("Contents", [])
            return True if not keys else None

        await eventually(look, 20)


async def test_while_the_archive_is_away_only_what_is_in_it_cannot_be_read(bus: Bus, tmp_path: Path, s3: S3):
    content = b"step 1\n" * 60_000
    async with archiving(bus, tmp_path / "d", s3) as kept:
        archived = await finished(kept, content)
        await until_archived(tmp_path / "d", archived)
    async with archiving(bus, tmp_path / "d", s3, s3_endpoint="http://127.0.0.1:9") as kept:
        job = await finished(kept, content, "other")
        assert await kept.raw(job) == content
        assert await kept.sizes(archived) == {(1, "worker", 0): (len(content), True)}
        answer = await kept.client().get(f"/v1/logs/{archived}/1/worker/0", params={"tail": 1})
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    async with archiving(bus, tmp_path / "d", s3) as kept:
        await until_archived(tmp_path / "d", job)
        for each in (job, archived):
            assert await kept.raw(each) == content


async def test_an_archive_that_never_answers_holds_nothing_else_up(bus: Bus, tmp_path: Path, s3: S3):
    async with stalling(s3) as slow, archiving(bus, tmp_path / "e", s3, s3_endpoint=slow.endpoint) as kept:
        job = await submit(bus)
        content = b"step 1\n" * 60_000
        await publish(
            bus, *(Chunk(log_of(job), at, content[at : at + 60_000]) for at in range(0, len(content), 60_000))
        )
        await publish(bus, Chunk(log_of(job), len(content), end=len(content)))
        other = await submit(bus, "other")
        await publish(bus, Chunk(log_of(other), 0, b"hello\n"))
        await kept.until_sized(other, 6)
        assert await kept.raw(job) == content


async def test_event_files_and_samples_are_copied_and_come_back_with_a_new_directory(
    bus: Bus, tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mirroring_module, "QUIET_S", 0.0)
    monkeypatch.setattr(mirroring_module, "EVERY_S", 0.05)
    events, used = b"\0event\xff" * 100, b"{}\n"
    async with archiving(bus, tmp_path / "f", s3) as kept:
        job = await submit(bus)
        records, samples = (
            replace(log_of(job), kind="tb", path="train/a \udcff%.tfevents"),
            replace(log_of(job), kind="use"),
        )
        await publish(bus, Chunk(records, 0, events[:300]), Chunk(samples, 0, used))
        await publish(bus, Chunk(records, 300, events[300:], generation=1), Chunk(log_of(job), 0, end=0))
        expected = {
            f"f/{job}/1/worker/0/tb/train/a%20%FF%25.tfevents": events,
            f"f/{job}/1/worker/0/resources/samples": used,
        }

        async def look() -> bool | None:
            found = objects(s3, tmp_path / "f", job)
            return True if expected.items() <= found.items() else None

        await eventually(look, 20)
        await kept.until_ended(job)
    async with archiving(bus, tmp_path / "anew", s3, log_archive=f"s3://{s3.bucket}/f"):
        store = tmp_path / "anew/logs/store" / job / "1/worker/0"
        assert (store / "tb/train/a \udcff%.tfevents").read_bytes() == events
        assert (store / "resources/samples").read_bytes() == used


async def test_records_on_a_mount_at_s3_are_shown_with_a_directory_that_is_chosen_later(
    bus: Bus, tmp_path: Path, s3: S3
):
    s3.put_key("team/out/runs/events.out.tfevents.1", scalars("loss", [1.0, 2.0]))
    mount = ev.ResolvedMount(mount_path="/mnt/data", type="storage", source="data", uri=f"s3://{s3.bucket}/team")
    async with keeping_logs(bus, tmp_path / "g", **s3.settings(tmp_path)) as kept:
        job = await submit(bus, mounts=(mount,))
        asked = {"jobs": [job], "dir": "/mnt/data/out"}
        answer = await kept.client().post("/v1/tensorboard", json=asked)
        assert answer.status_code == 200, answer.text
        runs = answer.json()["url"] + "data/runs"

        async def look() -> bool | None:
            return True if (await kept.client().get(runs)).json() == ["records/runs"] else None

        await eventually(look, 40)
        nothing = await kept.client().post("/v1/tensorboard", json=asked | {"dir": "/mnt/data/nowhere"})
        assert nothing.json()["errors"][0]["code"] == "not-found"
