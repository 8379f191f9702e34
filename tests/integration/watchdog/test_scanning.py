"""The watchdog reads logs as they pass, and decides right also after it was killed at a bad moment."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from services.watchdog import scanning
from services.watchdog.bootstrap import WatchdogService, bootstrap
from services.watchdog.scanning import PartitionScanner
from shared import events as ev
from shared.bus import Bus
from shared.bus.streams import Reaction, watchdog_partition
from shared.clock import ManualClock
from shared.logs_wire import partition_of
from tests.support.jobs import START
from tests.support.nats import NatsServer
from tests.support.services import eventually, running
from tests.support.watchdog import ADVANCED, TestJob, watchdog_settings

ERROR = b"E storage disk7 gave up\n"
Start = Callable[..., "AsyncIterator[WatchdogService]"]


@pytest.fixture
def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> Start:
    @asynccontextmanager
    async def start(clock: ManualClock | None = None) -> AsyncIterator[WatchdogService]:
        settings = watchdog_settings(nats_server.url, tmp_path)
        async with running(await bootstrap(settings, clock)) as service:
            await service.reacts.wait()
            yield service

    return start


async def all_read(bus: Bus, job: TestJob) -> None:
    """Return when every chunk of the job's partition is read and acknowledged."""
    reaction = watchdog_partition(partition_of(job.id))

    async def look() -> bool | None:
        info = await bus.js.consumer_info(reaction.stream, reaction.durable)
        return True if not info.num_pending and not info.num_ack_pending else None

    await eventually(look)


async def soon_sent_again(bus: Bus, reaction: Reaction) -> None:
    """The server waits shorter for acknowledgements of the consumer than it does otherwise."""
    info = await bus.js.consumer_info(reaction.stream, reaction.durable)
    await bus.js.add_consumer(reaction.stream, info.config.evolve(ack_wait=0.5))


async def test_a_message_is_an_incident_at_once_with_the_lines_before_it(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run(retry=ADVANCED)
        await job.write(b"one\ntwo\r")
        await job.write(ERROR[:9])
        await job.write(ERROR[9:] + b"after\n")
        (incident,) = await job.incidents()
    assert (incident.rule, incident.line, incident.before) == ("message/1", "E storage disk7 gave up", ("one", "two"))
    assert incident.replica is not None
    assert (incident.action, incident.replica.index) == ("none", 0)


async def test_a_decision_names_rule_replica_line_and_budget(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus, 2).run(retry=ADVANCED)
        await job.write(b"fine\n", 0, end=True)
        await job.write(ERROR, 1, end=True)
        await job.fail(5, 1)
        decision = await job.decision()
    assert decision.retry
    assert (decision.rule, decision.line, decision.budget_left) == ("message/1", "E storage disk7 gave up", 1)
    assert decision.replica is not None
    assert decision.replica.index == 1
    assert decision.others == ("worker-1 ended with exit code 1",)


async def test_messages_of_a_policy_that_looks_at_none_are_not_looked_for(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run(retry={"maxRetries": 2})
        await job.write(ERROR)
        await all_read(bus, job)
        assert (await job.now()).attempt.incidents == ()


OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
CLOSED = b"NCCL WARN Net : Connection closed by remote peer host<1>\n"


async def test_what_the_catalogue_knows_is_told_of_every_job_with_what_to_do(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run()
        await job.write(OOM, end=True)
        (incident,) = await job.incidents()
        await job.fail(1)
        decision = await job.decision()
    assert (incident.rule, incident.failure_class, incident.severity) == ("cuda-oom", "user", "error")
    assert "smaller batch" in incident.advice
    assert not decision.retry
    assert decision.cause is not None
    assert (decision.cause.rule, decision.cause.failure_class) == ("cuda-oom", "user")


async def test_the_first_original_error_over_all_replicas_is_the_cause_and_a_users_is_not_retried(
    bus: Bus, watchdog: Start
) -> None:
    """Survivors are read first and fail first; the clock of one of them is an hour slow."""
    now_ms = int(_now().timestamp() * 1000)
    async with watchdog():
        job = await TestJob(bus, 3).run(retry=ADVANCED)
        await job.write(b"hello\n", 1, at_ms=now_ms - 3_600_000, node="n-slow")
        await job.write(CLOSED, 1, end=True, at_ms=now_ms - 3_599_000, node="n-slow")
        await job.write(CLOSED, 0, end=True)
        await job.write(OOM, 2, end=True, at_ms=now_ms - 2000)
        await job.fail(1, 1, 1)
        decision = await job.decision()
    assert decision.cause is not None
    assert decision.cause.replica is not None
    assert (decision.cause.rule, decision.cause.replica.index) == ("cuda-oom", 2)
    assert not decision.retry
    assert "error of the job itself" in decision.reason
    assert any("worker-1 printed (nccl-remote-closed)" in other for other in decision.others)


async def test_a_failure_of_the_node_is_retried_without_it_and_told_to_the_ledger(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run(retry=ADVANCED)
        await job.write(b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n", end=True)
        await job.fail(1)
        decision = await job.decision()

        async def told() -> bool | None:
            message = await bus.js.get_last_msg("NODES", "tm.node.*.n-1.suspected")
            return message.data is not None and job.id in message.data.decode()

        assert await eventually(told)
    assert (decision.retry, decision.rule, decision.exclude_nodes) == (True, "cuda-ecc", ("n-1",))


async def test_the_ledger_is_told_of_the_node_also_where_there_is_no_retry(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run()
        await job.write(b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n", end=True)
        await job.fail(1)
        decision = await job.decision()

        async def told() -> bool | None:
            found = await bus.history.last_event("tm.node.*.n-1.suspected", stream="NODES")
            data = found.event.data if found is not None else None
            return (isinstance(data, ev.NodeSuspected) and data.job == job.id) or None

        assert await eventually(told)
    assert (decision.retry, decision.exclude_nodes) == (False, ())


async def test_steps_in_the_log_are_progress_that_the_decision_keeps(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run(retry=ADVANCED)
        await job.write(b"epoch 2 step 17\n", end=True)
        await job.fail(1)
        progress = (await job.decision()).progress
    assert progress is not None
    assert (progress.epoch, progress.step) == (2, 17)


async def test_chunks_that_are_none_and_jobs_that_are_none_do_not_hold_it_up(bus: Bus, watchdog: Start) -> None:
    async with watchdog():
        job = await TestJob(bus).run(retry=ADVANCED)
        await TestJob(bus).write(ERROR)
        for headers in ({}, {"Tm-Kind": "log"}, {"Tm-Kind": "tb", "Tm-Offset": "0", "Tm-Path": "x"}):
            await bus.js.publish(f"tm.log.{partition_of(job.id)}.{job.id}.1.worker.0", b"x", headers=headers)
        await job.write(ERROR)
        await job.incidents()


async def test_a_decision_waits_ten_seconds_for_the_end_of_a_failed_replicas_log(bus: Bus, watchdog: Start) -> None:
    clock = ManualClock()
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        in_time, too_late = await TestJob(bus).run(retry=ADVANCED), await TestJob(bus).run(retry=ADVANCED)
        for job in (in_time, too_late):
            await job.write(b"an agent is there\n")
            await all_read(bus, job)
            await job.fail(1)
        await _step(clock, 9)
        assert (await in_time.now()).attempt.decision is None
        await in_time.write(ERROR, end=True)
        assert (await in_time.decision()).rule == "message/1"
        assert (await too_late.now()).attempt.decision is None
        await _step(clock, 2)
        assert "no rule decides" in (await too_late.decision()).reason


async def test_the_ten_seconds_begin_when_an_agent_ships_again_after_a_restart(bus: Bus, watchdog: Start) -> None:
    clock = ManualClock()
    shipped, never_shipped = await TestJob(bus).run(retry=ADVANCED), await TestJob(bus).run(retry=ADVANCED)
    await shipped.write(b"before the restart\n")
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        for job in (shipped, never_shipped):
            await job.fail(1)
        await _step(clock, 40)
        assert (await shipped.now()).attempt.decision is None
        await shipped.write(b"after it\n")
        await all_read(bus, shipped)
        await _step(clock, 9)
        await shipped.write(ERROR, end=True)
        assert (await shipped.decision()).rule == "message/1"
        await _step(clock, 3)
        assert "no rule decides" in (await never_shipped.decision()).reason


async def test_where_no_agent_comes_back_it_is_decided_after_a_minute(bus: Bus, watchdog: Start) -> None:
    clock = ManualClock()
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        job = await TestJob(bus).run(retry=ADVANCED)
        await job.fail(1)
        await _step(clock, 58)
        assert (await job.now()).attempt.decision is None
        await _step(clock, 4)
        assert "no rule decides" in (await job.decision()).reason


async def test_a_line_that_was_cut_by_the_death_of_the_watchdog_is_found(bus: Bus, watchdog: Start) -> None:
    job = TestJob(bus)
    async with watchdog():
        await job.run(retry=ADVANCED)
        await job.write(b"first\n" + ERROR[:12])
        await all_read(bus, job)
    async with watchdog():
        await job.write(ERROR[12:], end=True)
        await job.fail(1)
        assert (await job.decision()).rule == "message/1"
        assert (await job.incidents())[0].before == ("first",)


async def test_what_was_written_and_ended_while_the_watchdog_was_away_counts(bus: Bus, watchdog: Start) -> None:
    job = await TestJob(bus).run(retry=ADVANCED)
    await job.write(b"noise\n" * 1000)
    await job.write(ERROR, end=True)
    await job.fail(1)
    async with watchdog():
        assert (await job.decision()).rule == "message/1"


async def test_chunks_in_hand_when_it_died_are_read_though_later_ones_come_first(bus: Bus, watchdog: Start) -> None:
    job = await TestJob(bus).run(retry=ADVANCED)
    await job.write(ERROR[:12])
    reaction = watchdog_partition(partition_of(job.id))
    await soon_sent_again(bus, reaction)
    dying = await bus.js.pull_subscribe_bind(reaction.durable, stream=reaction.stream)
    assert len(await dying.fetch(1)) == 1
    await dying.unsubscribe()
    await job.write(ERROR[12:] + b"more\n", end=True)
    await job.fail(1)
    async with watchdog():
        assert (await job.decision()).rule == "message/1"


async def test_without_its_memory_what_is_on_record_is_enough(
    bus: Bus, watchdog: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_GAP_PAUSE_S", 0.02)
    job = TestJob(bus)
    async with watchdog():
        await job.run(retry=ADVANCED)
        await job.write(ERROR)
        await job.incidents()
        await all_read(bus, job)
    shutil.rmtree(tmp_path / "watchdog")
    async with watchdog():
        await job.write(b"", offset=len(ERROR), end=True)
        await job.fail(1)
        decision = await job.decision()
    assert (decision.rule, decision.line) == ("message/1", "E storage disk7 gave up")
    assert len((await job.now()).attempts[0].incidents) == 1


async def test_a_batch_read_again_raises_nothing_twice(bus: Bus, watchdog: Start, tmp_path: Path) -> None:
    job = TestJob(bus)
    async with watchdog():
        await job.run(retry=ADVANCED)
        await job.write(ERROR)
        await job.incidents()
    shutil.rmtree(tmp_path / "watchdog")
    async with watchdog():
        await job.write(ERROR, offset=0)
        await all_read(bus, job)
    assert len((await job.now()).attempt.incidents) == 1


async def test_of_a_large_gang_a_few_are_told_and_all_count(bus: Bus, watchdog: Start) -> None:
    retry = {
        "maxRetries": 1,
        "on": {
            "failure": {
                "policy": "ExitCodeAndErrorMsg",
                "exitCodes": [9],
                "errorMessages": ADVANCED["on"]["failure"]["errorMessages"],
            }
        },
    }
    async with watchdog():
        job = await TestJob(bus, 12).run(retry=retry)
        for index in range(12):
            await job.write(ERROR, index, end=True)
        await all_read(bus, job)
        await job.fail(*[1] * 11, 9)
        decision = await job.decision()
    assert decision.replica is not None
    assert (decision.rule, decision.replica.index) == ("message/1", 11)
    assert len((await job.now()).attempts[0].incidents) == 5


async def _step(clock: ManualClock, seconds: int) -> None:
    """Move the clock second by second, and let what wakes up do its work."""
    for _ in range(seconds):
        await asyncio.sleep(0.02)
        await clock.advance(1)
    await asyncio.sleep(0.05)


async def _await_backlog(service: WatchdogService, clock: ManualClock) -> None:
    async def look() -> bool | None:
        await clock.advance(0.25)
        return True if service._hears() else None

    await eventually(look)


HANG = {"hangDetection": {"enabled": True, "silence": "60s"}}
ON_HANG = {**HANG, "retry": {"maxRetries": 1, "on": {"hang": True}}}


async def test_silence_of_every_replica_is_told_and_then_a_hang(bus: Bus, watchdog: Start) -> None:
    """Chunks carry the server's own time, so the clock begins with it."""
    clock = ManualClock(_now())
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        stops, tells, works = [TestJob(bus, 2) for _ in range(3)]
        at_s = (clock.now() - _start()).total_seconds()
        for job, spec in ((stops, ON_HANG), (tells, HANG), (works, HANG)):
            await job.run(at_s=at_s, **spec)
            await job.write(b"begins\n")
            await all_read(bus, job)
        await _step(clock, 24)
        assert [each.rule for each in await stops.incidents()] == ["hang/warning"]
        await works.write(b"\r50%")
        await all_read(bus, works)
        await _step(clock, 40)
        assert [(each.rule, each.action) for each in await stops.incidents(2)][1] == ("hang", "stop")
        assert [(each.rule, each.action) for each in await tells.incidents(2)][1] == ("hang", "none")


async def test_silence_is_not_believed_while_chunks_wait_to_be_read(
    bus: Bus, watchdog: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scanner that does not run stands for one that lags behind."""
    async with watchdog() as service:
        job = await TestJob(bus).run(**HANG)
        scanner = service._scanners[partition_of(job.id)]
        await all_read(bus, job)
        now = _now()
        assert await scanner.has_heard_until(now)
    await job.write(b"not read yet\n")
    assert scanner._read_until is None or scanner._read_until < now
    late = PartitionScanner(bus, scanner._reaction, scanner._reading, service._hangs._clock)
    assert not await late.has_heard_until(now)
    late._read_until = _now()
    assert await late.has_heard_until(now)
    monkeypatch.setattr("services.watchdog.scanning.NEARLY_FULL", 0.0)
    assert not await late.has_heard_until(now)


async def test_a_restart_of_the_watchdog_neither_begins_the_count_anew_nor_ends_it_early(
    bus: Bus, watchdog: Start
) -> None:
    began = _now()
    clock = ManualClock(began)
    job = TestJob(bus)
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        await job.run(at_s=(clock.now() - _start()).total_seconds(), **ON_HANG)
        await job.write(b"begins\n")
        await all_read(bus, job)
        await _step(clock, 15)
        assert (await job.now()).attempt.incidents == ()
    clock = ManualClock(began)
    await clock.advance(50)
    async with watchdog(clock) as service:
        await _await_backlog(service, clock)
        await _step(clock, 8)
        assert (await job.now()).attempt.incidents == ()
        await _step(clock, 12)
        assert [each.rule for each in await job.incidents()][-1] == "hang"


def _now() -> datetime:
    return datetime.now(UTC)


def _start() -> datetime:
    return START
