"""The example subscriber counts each usage event once, however often it comes, and may do nothing else than read it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from nats.errors import Error as NatsError

from shared import events as ev
from shared.bus import Bus
from shared.bus.provision import provision
from shared.bus.streams import BILLING, JOBS, USAGE
from shared.events import Event
from tests.support.guarded import PASSWORDS, GuardedServer
from tests.support.jobs import START, event, submitted
from tests.support.nats import registered

SCRIPT = Path(__file__).parents[3] / "examples" / "billing-subscriber" / "subscriber.py"
JOB = "tj-aaaaaaaaaaaa"
SUBJECT = "tm.usage.pr-vision"


def usage(window: str, amount: int, corrects: str | None = None) -> Event:
    fields = {
        "job_name": "mnist",
        "owner_name": "ada",
        "role": "worker",
        "phase": "running",
        "window_start": START,
        "window_end": START,
        "instance_type": "cpu-small",
        "pool": "p-public",
        "pool_name": "public",
        "billable": True,
        "replica_ms": amount,
        "amount_micros": amount,
    }
    id_ = f"{JOB}/1/worker/{window}"
    payload: ev.Usage = ev.UsageMetered(**fields)
    if corrects:
        payload = ev.UsageCorrected(**fields, corrects=(f"{JOB}/1/worker/{corrects}",), reason="platform")
    return Event(
        id=id_,
        source="/trainmaster/scheduler",
        type=payload.TYPE,
        subject=JOB,
        time=START,
        owner="u-ada",
        project="vision",
        attempt=1,
        data=payload,
    )


class Site:
    """A server with usage in it, and the subscriber's files."""

    def __init__(self, home: Path) -> None:
        self.server = GuardedServer(home / "nats")
        self.access = home / "billing.json"
        self.database = home / "billing.sqlite"
        self.last = 0
        self.scheduler: Bus | None = None

    async def start(self) -> None:
        self.server.start()
        self.hand_out()
        platform = await self.server.connect("platform")
        await provision(platform.js)
        await platform.close()
        self.scheduler = await self.server.connect("scheduler")

    def hand_out(self) -> None:
        access = {"url": self.server.url, "user": "billing", "password": PASSWORDS["billing"]}
        self.access.write_text(json.dumps({**access, "stream": BILLING.stream, "consumer": BILLING.durable}))

    async def publish(self, *events: Event) -> None:
        assert self.scheduler is not None
        for one in events:
            self.last = await self.scheduler.meter(one, subject=SUBJECT, expected=self.last)

    def command(self, *options: str) -> list[str]:
        return [sys.executable, str(SCRIPT), "--access", str(self.access), "--database", str(self.database), *options]

    def run(self, *options: str) -> str:
        done = subprocess.run(self.command(*options), capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self) -> dict[str, int]:
        with closing(sqlite3.connect(self.database)) as database:
            return dict(database.execute("SELECT id, amount_micros FROM usage"))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    await site.start()
    yield site
    await site.scheduler.close()
    site.server.kill()


async def test_every_event_is_counted_once_and_corrections_are_added(site: Site):
    await site.publish(usage("a", 100), usage("b", 50))
    site.run("--once")
    await site.publish(usage("a/correction/1", -100, corrects="a"))
    site.run("--once")
    assert len(site.rows()) == 3
    assert sum(site.rows().values()) == 50
    assert "2026-01  vision  0.000 replica hours  0.000050" in site.run("--report")


async def test_a_replay_counts_nothing_twice_and_fills_a_new_file(site: Site):
    await site.publish(usage("a", 100), usage("b", 50))
    site.run("--once")
    site.run("--replay")
    assert sum(site.rows().values()) == 150
    site.database.unlink()
    site.run("--once")
    assert site.rows() == {}
    site.run("--replay")
    assert sum(site.rows().values()) == 150


async def test_what_was_not_acknowledged_comes_again(site: Site):
    await site.publish(usage("a", 100))
    billing = await site.server.connect("billing")
    subscription = await billing.js.pull_subscribe_bind(BILLING.durable, stream=USAGE)
    (message,) = await subscription.fetch(1, timeout=30)
    await message.nak()  # as a subscriber that crashed before its commit, only sooner
    await billing.close()
    site.run("--once")
    assert sum(site.rows().values()) == 100


async def test_a_subscriber_that_was_killed_and_a_server_that_was_away_lose_nothing(site: Site):
    await site.publish(usage("a", 100))
    subscriber = subprocess.Popen(site.command())
    until(lambda: sum(site.rows().values()) == 100)
    site.server.kill()
    site.server.start()
    site.hand_out()
    await site.scheduler.close()
    site.scheduler = await site.server.connect("scheduler")
    await site.publish(usage("b", 50))
    until(lambda: sum(site.rows().values()) == 150)
    subscriber.kill()
    subscriber.wait()
    await site.publish(usage("c", 7))
    site.run("--once")
    assert sum(site.rows().values()) == 157


def until(holds, limit_s: float = 20) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if holds():
                return
        except sqlite3.OperationalError:
            pass  # the file is being made
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "subject",
    [
        f"$JS.API.DIRECT.GET.{JOBS}",
        f"$JS.API.STREAM.MSG.GET.{JOBS}",
        f"$JS.API.STREAM.INFO.{JOBS}",
        f"$JS.API.CONSUMER.CREATE.{JOBS}",
        f"$JS.API.CONSUMER.CREATE.{USAGE}",
        f"$JS.API.CONSUMER.DELETE.{USAGE}.{BILLING.durable}",
        f"$JS.API.STREAM.PURGE.{USAGE}",
        f"$JS.API.STREAM.DELETE.{USAGE}",
        f"$JS.API.STREAM.MSG.DELETE.{USAGE}",
        "$JS.API.DIRECT.GET.KV_credentials",
        "$KV.catalog.pool.p-x",
        SUBJECT,
        f"tm.job.{JOB}.state.submitted",
    ],
)
async def test_the_billing_user_is_refused_everything_else(site: Site, subject: str):
    await site.publish(usage("a", 100))
    await site.scheduler.observe(event(ev.ReplicasChanged(changes=()), JOB, part="1"))
    billing = await site.server.connect("billing")
    with pytest.raises(NatsError):
        await billing.client.request(subject, b'{"seq": 1}', timeout=0.3)
    await billing.close()
    assert (await site.scheduler.js.stream_info(USAGE)).state.messages == 1


async def test_the_billing_user_hears_nothing_of_the_jobs(site: Site):
    billing = await site.server.connect("billing")
    subscription = await billing.client.subscribe(">")
    await registered(billing.client)
    submitter = await site.server.connect("submitter")
    await submitter.append(event(submitted(), JOB), expected=0)
    with pytest.raises(TimeoutError):
        await subscription.next_msg(timeout=0.3)
    await billing.close()
    await submitter.close()
