"""Jobs whose data is at s3://: there before the start, brought back before the end, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.scheduler.bootstrap import SchedulerService
from services.scheduler.sources import data
from shared import events as ev
from shared.jobs import JobState
from tests.support.s3 import S3, s3_server, stalling
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

MOUNT = "/mnt/data"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("moto")) as running_server:
        yield running_server


@pytest.fixture
def s3(server: S3) -> S3:
    for key in server.contents():
        server.client.delete_object(Bucket=server.bucket, Key=key)
    return server


def mounted(s3: S3, key: str = "set", *, read_only: bool = False) -> dict:
    uri = f"s3://{s3.bucket}/{key}"
    resolved = ev.ResolvedMount(
        mount_path=MOUNT, type="storage", source="team", uri=uri, root=f"s3://{s3.bucket}", read_only=read_only
    )
    mount = {"type": "storage", "source": "team", "mountPath": MOUNT, "readOnly": read_only}
    return {"mounts": [mount], "resolved_mounts": (resolved,)}


def directories(rig: Rig) -> list[Path]:
    return list((rig.home / "scheduler" / "data").iterdir())


async def test_a_job_reads_what_was_there_and_its_output_is_there_when_it_has_succeeded(rig: Rig, s3: S3):
    s3.put(set__in="42")
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        command = f"cat {MOUNT}/in; mkdir -p {MOUNT}/out; echo result > {MOUNT}/out/$RANK"
        job = await rig.submit(command, replicas=2, **mounted(s3))
        await rig.until(job, JobState.SUCCEEDED)
        assert s3.contents() == {"set/in": b"42", "set/out/0": b"result\n", "set/out/1": b"result\n"}
    assert rig.log(job) == "42"


async def test_what_a_failed_attempt_wrote_is_there_for_the_next(rig: Rig, s3: S3):
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        command = f"[ -e {MOUNT}/checkpoint ] || {{ echo 1 > {MOUNT}/checkpoint; exit 3; }}"
        job = await rig.submit(command, **mounted(s3))
        await rig.until(job, JobState.DECIDING)
        assert s3.contents() == {"set/checkpoint": b"1\n"}
        await rig.append(ev.RetryDecided(retry=True, reason="once more"), job)
        await rig.until(job, JobState.SUCCEEDED)


async def test_a_read_only_mount_cannot_be_written(rig: Rig, s3: S3):
    s3.put(set__in="42")
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        job = await rig.submit(f"! touch {MOUNT}/x 2>/dev/null && cat {MOUNT}/in", **mounted(s3, read_only=True))
        await rig.until(job, JobState.SUCCEEDED)
    assert s3.contents() == {"set/in": b"42"}


@pytest.mark.parametrize(
    ("key", "configured", "message"),
    [
        ("nothing", True, "there is nothing at"),
        ("set", False, "this platform has no object store any more"),
    ],
)
async def test_what_cannot_be_had_fails_the_attempt_with_the_reason(
    rig: Rig, s3: S3, key: str, configured: bool, message: str
):
    s3.put(set__in="42")
    async with running(await rig.scheduler(**(s3.settings(rig.home) if configured else {}))):
        job = await rig.submit("true", **mounted(s3, key, read_only=True))
        done = await rig.until(job, JobState.DECIDING)
    assert message in done.attempt.ended.message


async def test_a_missing_bucket_is_told_by_its_name(rig: Rig, s3: S3, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "PAUSE_S", 0.01)
    other = S3(s3.endpoint, s3.client, "no-such-bucket")
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        job = await rig.submit("true", **mounted(other))
        done = await rig.until(job, JobState.DECIDING, limit_s=60)
    assert "s3://no-such-bucket/set cannot be synchronised" in done.attempt.ended.message
    assert "NoSuchBucket" in done.attempt.ended.message


async def test_a_success_whose_output_cannot_be_saved_is_none(rig: Rig, s3: S3, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "PAUSE_S", 0.01)
    monkeypatch.setattr(data, "SAVE_TRIES", 2)
    gone = S3(s3.endpoint, s3.client, "short-lived")
    s3.client.create_bucket(Bucket=gone.bucket)
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        job = await rig.submit(f"echo precious > {MOUNT}/out; sleep 2", **mounted(gone))
        await rig.until(job, JobState.RUNNING)
        s3.client.delete_bucket(Bucket=gone.bucket)
        done = await rig.until(job, JobState.DECIDING, limit_s=60)
    assert done.attempt.ended.reason is ev.EndReason.PLATFORM
    assert "what was written to s3://short-lived/set could not be saved" in done.attempt.ended.message
    assert [(path / "0" / "out").read_text() for path in directories(rig)] == ["precious\n"]


async def test_a_scheduler_that_ended_before_the_output_was_saved_saves_it_at_its_next_start(rig: Rig, s3: S3):
    settings = s3.settings(rig.home)
    async with running(await rig.scheduler(**settings)):
        command = f"echo begun > {MOUNT}/begun; until [ -e {MOUNT}/go ]; do sleep 0.05; done; echo out > {MOUNT}/out"
        job = await rig.submit(command, **mounted(s3))
        await rig.until(job, JobState.RUNNING)
    shared = rig.home / "scheduler" / "data" / f"{job}-1" / "0"
    (shared / "go").touch()
    await eventually(lambda: _exists(shared / "out"))
    assert s3.contents() == {}
    async with running(await rig.scheduler(**settings)):
        await rig.until(job, JobState.SUCCEEDED)
    assert set(s3.contents()) == {"set/begun", "set/go", "set/out"}


async def _exists(path: Path) -> bool | None:
    return path.exists() or None


async def explained(service: SchedulerService, rig: Rig, job: str) -> str:
    transport = httpx.ASGITransport(service.app)
    headers = {"Authorization": f"Bearer {rig.token()}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        return str((await client.get(f"/v1/queue/{job}")).json().get("summary", ""))


async def test_progress_is_told_and_a_job_stopped_while_its_data_comes_ends_at_once(rig: Rig, s3: S3):
    s3.put(set__in="42")
    async with stalling(s3) as slow:
        service = await rig.scheduler(**slow.settings(rig.home))
        async with running(service):
            job = await rig.submit("true", **mounted(s3))

            async def progress_is_told() -> bool | None:
                return "synchronising 0B of 2B of data" in await explained(service, rig, job) or None

            await eventually(progress_is_told)
            await rig.append(ev.StopRequested(by="u-ada"), job)
            await rig.until(job, JobState.STOPPED, limit_s=45)
    assert s3.contents() == {"set/in": b"42"}


async def test_a_scheduler_that_ends_while_data_comes_does_not_wait_for_it_and_the_next_goes_on(rig: Rig, s3: S3):
    s3.put(set__in="42")
    async with stalling(s3) as slow, asyncio.timeout(45), running(await rig.scheduler(**slow.settings(rig.home))):
        job = await rig.submit(f"cat {MOUNT}/in", **mounted(s3))
        await rig.until(job, JobState.STARTING)
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        await rig.until(job, JobState.SUCCEEDED)
    assert rig.log(job) == "42"


async def test_the_directory_goes_once_the_engine_has_let_go_of_the_gang(
    rig: Rig, s3: S3, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("services.scheduler.bootstrap.SWEEP_DATA_S", 0.1)
    async with running(await rig.scheduler(**s3.settings(rig.home))):
        job = await rig.submit(f"touch {MOUNT}/x", **mounted(s3))
        await rig.until(job, JobState.SUCCEEDED)
        assert len(directories(rig)) == 1
        (rig.home / "gangs" / f"{job}-1" / "replicas" / "worker-0" / "shipped.json").write_text("{}")

        async def gone() -> bool | None:
            return not directories(rig) or None

        await eventually(gone)
