"""Transitions, batches, fences and observations against a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.js.api import DiscardPolicy

from shared import events as ev
from shared.bus import Bus, BusUnavailableError, Claim, ConcurrentWriteError, Fence, FencedError, Transition
from shared.events import Event
from shared.ids import new_job_id
from shared.jobs import JobState
from tests.support.jobs import START, event, placed, submitted
from tests.support.nats import NatsServer


def leader(holder: str, number: int) -> Event:
    return Event(
        id=f"leader/{holder}/{number}",
        source="/trainmaster/scheduler",
        type=ev.LeaderElected.TYPE,
        subject="scheduler",
        time=START,
        data=ev.LeaderElected(holder=holder),
    )


def claim(job: str, name: str, expected: int = 0) -> Claim:
    return Claim(event(ev.NameClaimed(name=name), job), owner="u-ada", name=name, expected=expected)


async def test_a_job_is_the_fold_of_what_was_appended(bus: Bus) -> None:
    job = new_job_id()
    sequence = await bus.append(event(submitted(), job), expected=0)
    sequence = await bus.append(event(placed(), job), expected=sequence)
    loaded = await bus.load_job(job)
    assert loaded is not None
    assert (loaded.state, loaded.sequence) == (JobState.STARTING, sequence)


async def test_of_twenty_racing_writers_exactly_one_wins(bus: Bus) -> None:
    job = new_job_id()
    first = await bus.append(event(submitted(), job), expected=0)
    racers = [bus.append(event(placed(node=f"n-{i}"), job), expected=first) for i in range(20)]
    outcomes = await asyncio.gather(*racers, return_exceptions=True)
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConcurrentWriteError) for outcome in outcomes) == 19


async def test_writing_the_same_fact_again_succeeds_with_the_first_sequence(bus: Bus) -> None:
    job = new_job_id()
    first = await bus.append(event(submitted(), job), expected=0)
    assert await bus.append(event(submitted(), job), expected=0) == first
    assert len(await bus.history.job_events(job)) == 1


async def test_a_submission_whose_name_is_taken_leaves_nothing(bus: Bus) -> None:
    first, second = new_job_id(), new_job_id()
    await bus.append_batch([claim(first, "mnist"), Transition(event(submitted("mnist"), first), 0)])
    with pytest.raises(ConcurrentWriteError, match=r"tm\.name"):
        await bus.append_batch([claim(second, "mnist"), Transition(event(submitted("mnist"), second), 0)])
    assert await bus.load_job(second) is None


async def test_a_deposed_scheduler_is_refused(bus: Bus) -> None:
    job = new_job_id()
    first = await bus.append(event(submitted(), job), expected=0)
    old = await bus.elect(leader("a", 1), expected=await bus.history.epoch())
    new = await bus.elect(leader("b", 2), expected=old)
    with pytest.raises(FencedError):
        await bus.append(event(placed(), job), expected=first, fence=Fence(old))
    assert await bus.append(event(placed(), job), expected=first, fence=Fence(new)) > first


async def test_only_one_of_two_candidates_begins_an_epoch(bus: Bus) -> None:
    epoch = await bus.history.epoch()
    outcomes = await asyncio.gather(
        bus.elect(leader("a", 1), expected=epoch), bus.elect(leader("b", 1), expected=epoch), return_exceptions=True
    )
    assert sum(isinstance(outcome, FencedError) for outcome in outcomes) == 1


async def test_the_end_of_an_attempt_and_of_its_job_go_together(bus: Bus) -> None:
    job = new_job_id()
    sequence = await bus.append(event(submitted(), job), expected=0)
    sequence = await bus.append(event(placed(), job), expected=sequence)
    ended = Transition(event(ev.AttemptEnded(reason=ev.EndReason.COMPLETED), job), sequence)
    last = await bus.append_batch([ended, Transition(event(ev.Succeeded(), job), None)])
    loaded = await bus.load_job(job)
    assert loaded is not None
    assert (loaded.state, loaded.sequence) == (JobState.SUCCEEDED, last)


async def test_observations_do_not_disturb_compare_and_set(bus: Bus) -> None:
    job = new_job_id()
    sequence = await bus.append(event(submitted(), job), expected=0)
    change = ev.ReplicaChange(role="worker", index=0, state="started", at=START)
    await bus.observe(event(ev.ReplicasChanged(changes=(change,)), job, part="1"))
    await bus.append(event(placed(), job), expected=sequence)


async def test_a_repeated_observation_is_stored_once(bus: Bus) -> None:
    job = new_job_id()
    for _ in range(3):
        await bus.observe(event(ev.ReplicasChanged(changes=()), job, part="1"))
    assert len(await bus.history.job_events(job)) == 1


async def test_history_longer_than_a_page_comes_whole(bus: Bus) -> None:
    job = new_job_id()
    events = [event(ev.ReplicasChanged(changes=()), job, part=str(i)) for i in range(2100)]
    for start in range(0, len(events), 300):
        await asyncio.gather(*(bus.observe(one) for one in events[start : start + 300]))
    found = await bus.history.job_events(job)
    assert [recorded.sequence for recorded in found] == sorted(recorded.sequence for recorded in found)
    assert len(found) == 2100


async def test_a_write_waits_out_a_server_restart(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    await server.wipe()
    bus = await server.bus()
    job = new_job_id()
    first = await bus.append(event(submitted(), job), expected=0)
    server.kill()
    writing = asyncio.create_task(bus.append(event(placed(), job), expected=first))
    await asyncio.sleep(0)
    server.start()
    assert await writing > first
    await bus.close()
    server.kill()


async def test_a_write_gives_up_with_a_clear_error_where_the_server_stays_away(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    await server.wipe()
    bus = await server.bus(patience_s=0.2)
    server.kill()
    with pytest.raises(BusUnavailableError):
        await bus.append(event(submitted(), new_job_id()), expected=0)
    await bus.close()


@pytest.mark.parametrize("name", [None, "taken"], ids=["one message", "a batch"])
async def test_a_write_waits_until_the_server_has_room_and_otherwise_says_that_it_is_unavailable(
    nats_server: NatsServer, bus: Bus, name: str | None
) -> None:
    hasty = await nats_server.bus(patience_s=0.1)
    config = (await bus.js.stream_info("JOBS")).config
    await bus.js.update_stream(config.evolve(max_bytes=1, discard=DiscardPolicy.NEW))
    job = new_job_id()
    writes = [*([claim(job, name)] if name else []), Transition(event(submitted(), job), 0)]
    with pytest.raises(BusUnavailableError, match="did not take"):
        await hasty.append_batch(writes)
    writing = asyncio.create_task(bus.append_batch(writes))
    await asyncio.sleep(0)
    await bus.js.update_stream(config)
    await writing
    assert len(await bus.history.job_events(job)) == 1
    await hasty.close()
