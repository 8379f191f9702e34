"""A backup that is taken from one NATS and restored into another."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.nats.__main__ import ProvisionSettings, back_up, restore_from
from deploy.nats.backups import MANIFEST, Backups, restore_backup
from deploy.nats.snapshots import SnapshotError
from shared import events as ev
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.provision import provision
from shared.bus.streams import BILLING, CODE_BUCKET, JOBS, SECRETS_BUCKET, WATCHDOG_ATTEMPTS
from shared.ids import new_job_id
from tests.support.jobs import event, submitted
from tests.support.nats import NatsServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def another(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A NATS without any streams."""
    server = NatsServer(tmp_path / "another")
    server.start()
    yield server
    server.kill()


@asynccontextmanager
async def connected(server: NatsServer) -> AsyncIterator[Bus]:
    bus = await server.bus()
    try:
        yield bus
    finally:
        await bus.close()


def settings(server: NatsServer) -> ProvisionSettings:
    return ProvisionSettings.model_validate({"nats_url": server.url, "nats_user": ""})


async def test_what_was_kept_is_there_again(
    bus: Bus, nats_server: NatsServer, another: NatsServer, tmp_path: Path
) -> None:
    job = new_job_id()
    at = await bus.observe(event(submitted(), job), subject=f"tm.job.{job}.state.submitted")
    await bus.observe(event(ev.AttemptEnded(reason=ev.EndReason.FAILED), job))
    subscription = await bus.js.pull_subscribe_bind(WATCHDOG_ATTEMPTS.durable, JOBS)
    (message,) = await subscription.fetch(1, timeout=30)
    await message.ack_sync()
    digest = await Blobs(bus.js, CODE_BUCKET).put(io.BytesIO(b"code" * 100_000))
    await (await bus.js.key_value(SECRETS_BUCKET)).put("s-1", b"sealed")
    await back_up(settings(nats_server), tmp_path / "backups", keep=0)
    (place,) = (tmp_path / "backups").iterdir()

    await restore_from(settings(another), place)

    async with connected(another) as there:
        events = await there.history.job_events(job)
        assert [each.sequence for each in events] == [at, at + 1]
        acknowledged = await there.js.consumer_info(JOBS, WATCHDOG_ATTEMPTS.durable)
        assert (acknowledged.ack_floor.stream_seq, acknowledged.num_pending) == (at + 1, 0)
        assert (await there.js.consumer_info(BILLING.stream, BILLING.durable)).num_pending == 0
        await Blobs(there.js, CODE_BUCKET).fetch(digest, tmp_path / "code")
        assert (tmp_path / "code").read_bytes() == b"code" * 100_000
        assert (await (await there.js.key_value(SECRETS_BUCKET)).get("s-1")).value == b"sealed"
        await provision(there.js)
        await there.observe(event(ev.AttemptEnded(reason=ev.EndReason.FAILED), new_job_id()))


async def test_a_backup_is_restored_whole_or_not_at_all(bus: Bus, another: NatsServer, tmp_path: Path) -> None:
    place = await Backups(tmp_path / "backups").take(bus, NOW)
    with pytest.raises(SnapshotError, match="NATS has USAGE already; a backup is restored into one that is empty"):
        await restore_backup(bus, place, replicas=1)
    torn = place / JOBS
    torn.write_bytes(torn.read_bytes()[:-1])
    async with connected(another) as there:
        with pytest.raises(SnapshotError, match="JOBS is not what was backed up"):
            await restore_backup(there, place, replicas=1)
        torn.unlink()
        with pytest.raises(SnapshotError, match="JOBS is missing"):
            await restore_backup(there, place, replicas=1)
        with pytest.raises(SnapshotError, match=f"has no {MANIFEST}; below it there are 2030-01-01"):
            await restore_backup(there, place.parent, replicas=1)
        assert await there.js.streams_info() == []


async def test_a_directory_that_cannot_be_written_is_named(bus: Bus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=r"file/2030-01-01T00-00-00\.000Z cannot be written: Not a directory"):
        await Backups(tmp_path / "file").take(bus, NOW)


async def test_the_newest_backups_stay_and_what_was_never_finished_goes(bus: Bus, tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    taken = [await backups.take(bus, NOW + timedelta(days=day)) for day in range(3)]
    torn = tmp_path / "2030-01-02T12-00-00.000Z"
    torn.mkdir()
    younger = tmp_path / "2030-01-05T00-00-00.000Z"
    younger.mkdir()
    assert backups.forget_all_but(1) == [taken[0], taken[1], torn]
    assert sorted(tmp_path.iterdir()) == [taken[2], younger]
    assert backups.forget_all_but(1) == []
