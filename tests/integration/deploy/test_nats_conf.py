"""Each service's NATS user can do its work, and nothing of another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from deploy.local.home import NATS_USERS
from deploy.nats.config import nats_config
from shared import events as ev
from shared.agent_wire import probe_subject, shipped_subject
from shared.bus import Bus, BusOptions, BusUnavailableError, Claim, Fence, Transition
from shared.bus.provision import provision
from shared.bus.streams import (
    SECRETS_BUCKET,
    WATCHDOG_ATTEMPTS,
    logs_partition,
    watchdog_partition,
)
from shared.events import Event, Payload
from shared.ids import new_job_id
from shared.logs_wire import LOG_PARTITIONS
from shared.vault import Keyring, Vault
from tests.support.archiving import acknowledge_all
from tests.support.jobs import START, event, placed, submitted
from tests.support.nats import NatsServer, registered

CHUNK = "tm.log.0.tj-a.1.worker.9"
PASSWORDS = {user: f"secret-of-{user}" for user in NATS_USERS}


class GuardedServer(NatsServer):
    def write_config(self, *, sync_always: bool = True) -> Path:
        config = self.store / "nats.conf"
        config.write_text(nats_config(self.port, self.store / "js", PASSWORDS))
        return config

    async def connect(self, user: str) -> Bus:
        return await Bus.connect(BusOptions(self.url, user, PASSWORDS[user]), patience_s=0.1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GuardedServer]:
    # A home may be called anything that a folder can be called.
    server = GuardedServer(tmp_path_factory.mktemp('größe \\ "$x" 训练'))
    server.start()

    async def make() -> None:
        bus = await server.connect("platform")
        await provision(bus.js)
        await bus.close()

    asyncio.run(make())
    yield server
    server.kill()


@pytest.fixture
async def buses(server: GuardedServer) -> AsyncIterator[dict[str, Bus]]:
    made = {user: await server.connect(user) for user in NATS_USERS}
    yield made
    for bus in made.values():
        await bus.close()


async def hears_nothing(buses: dict[str, Bus], user: str, subject: str) -> None:
    subscription = await buses[user].client.subscribe(subject)
    await registered(buses[user].client)
    await buses["platform"].client.publish(subject, b"secret")
    with pytest.raises(TimeoutError):
        await subscription.next_msg(timeout=0.3)


async def test_a_job_passes_through_its_whole_life_with_the_services_own_users(buses: dict[str, Bus]) -> None:
    job = new_job_id()
    claim = Claim(event(ev.NameClaimed(name=job), job), owner="u-ada", name=job, expected=0)
    at = await buses["submitter"].append_batch([claim, Transition(event(submitted(), job), 0)])
    elected = Event(
        id="leader/1",
        source="/trainmaster/scheduler",
        type=ev.LeaderElected.TYPE,
        subject="scheduler",
        time=START,
        data=ev.LeaderElected(holder="s"),
    )
    scheduler = buses["scheduler"]
    fence = Fence(await scheduler.elect(elected, expected=await scheduler.history.epoch()))
    for payload in (placed(), ev.Started(), ev.AttemptEnded(reason=ev.EndReason.FAILED)):
        at = await scheduler.append(event(payload, job), expected=at, fence=fence)
    await scheduler.observe(event(ev.ReplicasChanged(changes=()), job, part="1"))
    at = await buses["watchdog"].append(event(ev.RetryDecided(retry=False, reason="x"), job), expected=at)
    at = await scheduler.append(event(ev.Failed(reason="failed"), job), expected=at, fence=fence)
    at = await buses["submitter"].append(event(ev.Deleted(by="u-ada"), job), expected=at)
    for user in ("submitter", "scheduler", "watchdog", "diagnoser", "logs"):
        loaded = await buses[user].load_job(job)
        assert loaded is not None
        assert loaded.deleted


async def test_nobody_forges_the_event_of_another(buses: dict[str, Bus]) -> None:
    payloads: list[Payload] = [
        submitted(),
        placed(),
        ev.RetryDecided(retry=True, reason="x"),
        ev.DiagnosisFinished(passed=True),
    ]
    forgeries = [
        buses[user].observe(event(payload, new_job_id()))
        for user in ("submitter", "scheduler", "watchdog", "diagnoser", "logs", "agent")
        for payload in payloads
        if user != payload.AUTHOR
    ]
    outcomes = await asyncio.gather(*forgeries, return_exceptions=True)
    assert all(isinstance(outcome, BusUnavailableError) for outcome in outcomes)


@pytest.mark.parametrize("user", ["submitter", "scheduler", "watchdog", "diagnoser", "logs"])
async def test_services_follow_the_stream_of_jobs(buses: dict[str, Bus], user: str) -> None:
    following = buses[user].follow(after=0)
    async with asyncio.timeout(45):
        async for _item in following:
            break


async def test_logs_takes_every_partition_of_what_the_agent_ships(buses: dict[str, Bus]) -> None:
    logs = buses["logs"]
    for partition in range(LOG_PARTITIONS):
        await buses["agent"].js.publish(f"tm.log.{partition}.tj-a.1.worker.0", b"line\n")
        consumer = logs_partition(partition)
        subscription = await logs.js.pull_subscribe_bind(consumer.durable, stream=consumer.stream)
        message = (await subscription.fetch(1, timeout=30))[0]
        await message.ack_sync()


async def test_the_watchdog_takes_every_partition_beside_logs_and_not_for_it(buses: dict[str, Bus]) -> None:
    watchdog = buses["watchdog"]
    for partition in range(LOG_PARTITIONS):
        await buses["agent"].js.publish(f"tm.log.{partition}.tj-a.1.worker.1", b"line\n")
        consumer = watchdog_partition(partition)
        subscription = await watchdog.js.pull_subscribe_bind(consumer.durable, stream=consumer.stream)
        await (await subscription.fetch(1, timeout=30))[0].ack_sync()
    for user, other in (("watchdog", logs_partition(0)), ("logs", watchdog_partition(0))):
        with pytest.raises(Exception, match=r"timeout|Timeout"):
            await buses[user].js.consumer_info(other.stream, other.durable, timeout=0.2)


async def test_the_agent_hears_what_is_kept_and_nothing_of_the_jobs(buses: dict[str, Bus]) -> None:
    heard = await buses["agent"].client.subscribe("tm.kept.>")
    await registered(buses["agent"].client)
    await buses["logs"].client.publish("tm.kept.tj-a.1.worker.0", b"{}")
    assert (await heard.next_msg(timeout=30)).data == b"{}"
    await hears_nothing(buses, "agent", "tm.job.tj-a.state.submitted")


async def test_an_agent_publishes_chunks_of_logs_and_nothing_else(buses: dict[str, Bus]) -> None:
    forbidden = [
        *("tm.log.0", "tm.log.0.tj-a", "tm.log.0.tj-a.1.worker.0.x", "tm.kept.tj-a.1.worker.0", "tm.usage.default"),
        *("tm.job.tj-a.state.stopped", "tm.job.tj-a.obs.replicas.changed", "tm.node.c-main.n-a.suspected"),
        *("tm.agent.other.probe", "tm.agent.other.cancel", "tm.agent.other.shipped", "tm.epoch.scheduler"),
        *("$KV.catalog.pool.p-a", "$KV.secrets.sec-a", "$O.code.x", "$JS.API.STREAM.INFO.LOGS", "_INBOX_logs.x"),
        *("$JS.API.CONSUMER.CREATE.LOGS", "$JS.ACK.LOGS.logs-0.1", "tm.dlq.logs.x", "tm.platform.x"),
    ]
    heard = await buses["platform"].client.subscribe(">")
    await registered(buses["platform"].client)
    for subject in [*forbidden, CHUNK]:
        await buses["agent"].client.publish(subject, b"of an agent")
    told = []
    while CHUNK not in told:
        message = await heard.next_msg(timeout=30)
        told += [message.subject] if message.data == b"of an agent" else []
    assert told == [CHUNK]


async def test_an_agent_hears_how_far_logs_are_and_what_agents_are_asked_and_nothing_else(
    buses: dict[str, Bus],
) -> None:
    forbidden = [
        *(CHUNK, "tm.job.tj-a.state.submitted", "tm.usage.default", "tm.node.c-main.n-a.changed", "tm.agent.other"),
        *("$KV.catalog.secret.sec-a", "$KV.secrets.sec-a", "$O.code.x", "_INBOX_diagnoser.x", "_INBOX_logs.x"),
    ]
    kept = "tm.kept.tj-a.1.worker.0"
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        await heard.put(message.subject)

    for subject in [*forbidden, ">", "tm.>", "tm.agent.>", kept]:
        await buses["agent"].client.subscribe(subject, cb=hear)
    await registered(buses["agent"].client)
    for subject in [*forbidden, kept]:
        await buses["platform"].client.publish(subject, b"of the platform")
    async with asyncio.timeout(45):
        assert await heard.get() == kept
    assert heard.empty()


async def test_the_diagnoser_asks_the_agent_and_gets_its_answer(buses: dict[str, Bus]) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"well: " + message.data)

    await buses["agent"].client.subscribe(probe_subject("host-1"), cb=answer)
    await registered(buses["agent"].client)
    assert await buses["diagnoser"].ask(probe_subject("host-1"), b"you?", within_s=5) == b"well: you?"


async def test_the_scheduler_alone_asks_whether_logs_are_shipped(buses: dict[str, Bus]) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"shipped")

    await buses["agent"].client.subscribe(shipped_subject("host-1"), cb=answer)
    await registered(buses["agent"].client)
    assert await buses["scheduler"].ask(shipped_subject("host-1"), b"", within_s=5) == b"shipped"
    for user in ("submitter", "watchdog", "diagnoser", "logs", "agent"):
        with pytest.raises(BusUnavailableError):
            await buses[user].ask(shipped_subject("host-1"), b"", within_s=0.1)


async def test_nobody_else_asks_the_agent_and_it_says_nothing_unasked(buses: dict[str, Bus]) -> None:
    for user in ("submitter", "scheduler", "watchdog", "logs", "agent"):
        with pytest.raises(BusUnavailableError):
            await buses[user].ask(probe_subject("host-2"), b"", within_s=0.1)
    heard = await buses["diagnoser"].client.subscribe("_INBOX_diagnoser.unasked")
    await registered(buses["diagnoser"].client)
    await buses["agent"].client.publish("_INBOX_diagnoser.unasked", b"")
    with pytest.raises(TimeoutError):
        await heard.next_msg(timeout=0.2)


async def test_a_service_reads_nobody_elses_answers(buses: dict[str, Bus]) -> None:
    await hears_nothing(buses, "watchdog", "_INBOX_submitter.reply")


async def test_jobs_are_archived_by_the_submitter_alone_and_the_archive_is_purged_by_nobody(
    buses: dict[str, Bus],
) -> None:
    for user in ("scheduler", "watchdog", "diagnoser", "logs", "agent", "billing"):
        with pytest.raises(Exception, match=r"timeout|Timeout|no response"):
            await buses[user].js.publish("tm.archive.tj-aaaaaaaaaaaa", b"x", timeout=0.2)
        with pytest.raises(Exception, match=r"timeout|Timeout"):
            await buses[user].client.request("$JS.API.STREAM.PURGE.JOBS", b"", timeout=0.2)
    job = new_job_id()
    await buses["submitter"].append(event(submitted(), job), expected=0)
    await acknowledge_all(buses["platform"])
    assert await buses["submitter"].archive.put_away(job)
    for user in ("scheduler", "watchdog", "diagnoser", "logs"):
        assert await buses[user].load_job(job) is not None
    with pytest.raises(Exception, match=r"timeout|Timeout"):
        await buses["submitter"].client.request("$JS.API.STREAM.PURGE.ARCHIVE", b"", timeout=0.2)
    answer = await buses["platform"].client.request("$JS.API.STREAM.PURGE.ARCHIVE", b"", timeout=2)
    assert b"purge not permitted" in answer.data


async def test_nobody_but_the_platform_makes_or_removes_streams(buses: dict[str, Bus]) -> None:
    for user, bus in buses.items():
        if user == "platform":
            continue
        with pytest.raises(Exception, match=r"timeout|Timeout"):
            await bus.client.request("$JS.API.STREAM.DELETE.JOBS", b"", timeout=0.2)


async def test_the_watchdogs_reaction_is_bound_to_its_consumer(buses: dict[str, Bus]) -> None:
    info = await buses["watchdog"].js.consumer_info(WATCHDOG_ATTEMPTS.stream, WATCHDOG_ATTEMPTS.durable)
    assert info.config.filter_subject == WATCHDOG_ATTEMPTS.subject


async def test_values_of_secrets_are_written_by_the_submitter_and_read_by_scheduler_and_watchdog_alone(
    buses: dict[str, Bus],
) -> None:
    keys = Keyring.generate()
    await Vault(buses["submitter"], keys).keep("sec-a", "value")
    for user in ("scheduler", "watchdog"):
        assert await Vault(buses[user], keys).reveal("sec-a") == "value"
    for user in ("submitter", "diagnoser", "logs", "agent"):
        subject = f"$JS.API.DIRECT.GET.KV_{SECRETS_BUCKET}.$KV.{SECRETS_BUCKET}.sec-a"
        with pytest.raises(TimeoutError):
            await buses[user].client.request(subject, b"", timeout=0.2)
        with pytest.raises(TimeoutError):
            await buses[user].client.request(
                f"$JS.API.STREAM.MSG.GET.KV_{SECRETS_BUCKET}", b'{"last_by_subj":"$KV.secrets.sec-a"}', timeout=0.2
            )
    for user in ("scheduler", "watchdog", "diagnoser", "logs", "agent"):
        with pytest.raises(Exception, match=r"timeout|Timeout|no response|not kept"):
            await buses[user].js.publish(f"$KV.{SECRETS_BUCKET}.sec-a", b"{}", timeout=0.2)


async def test_a_wrong_password_is_refused(server: GuardedServer) -> None:
    wrong = replace(BusOptions(server.url, "watchdog", "guess"), connect_timeout_s=1)
    with pytest.raises(BusUnavailableError, match="watchdog"):
        await Bus.connect(wrong)


def test_what_streams_may_hold_is_not_counted_against_the_disk_that_is_free(server: GuardedServer) -> None:
    assert "max_file: 1TB" in server.write_config().read_text()
