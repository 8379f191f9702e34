"""Tasks that are to end do end."""

from __future__ import annotations

import asyncio

import pytest

from shared import tasks


class Deaf:
    """Loses the first cancellations, as a request to NATS may."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.started = asyncio.Event()

    async def run(self) -> None:
        while True:
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.left -= 1
                if self.left < 0:
                    raise


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REPEAT_S", 0.001)


async def test_a_task_that_loses_cancellations_is_ended_all_the_same():
    deaf = Deaf(times=2)
    task = asyncio.create_task(deaf.run())
    await deaf.started.wait()
    await tasks.end(task)
    assert task.cancelled()


async def test_ending_nothing_and_ending_what_has_ended_is_fine():
    await tasks.end()
    task = asyncio.create_task(asyncio.sleep(0))
    await task
    await tasks.end(task)


async def test_ending_goes_on_when_it_is_cancelled_itself():
    deaf = Deaf(times=5)
    task = asyncio.create_task(deaf.run())
    await deaf.started.wait()
    ending = asyncio.create_task(tasks.end(task))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    assert ending.cancelled()
    assert task.cancelled()


async def test_one_failure_ends_the_others_and_is_raised():
    deaf = Deaf(times=1)

    async def fail() -> None:
        await deaf.started.wait()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await tasks.run_together(deaf.run(), fail())
    assert deaf.left < 0


async def test_works_that_return_are_waited_for():
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    await tasks.run_together(work(1), work(2))
    assert sorted(done) == [1, 2]


async def test_cancelling_the_whole_ends_every_part():
    parts = [Deaf(times=1), Deaf(times=0)]
    whole = asyncio.create_task(tasks.run_together(*(part.run() for part in parts)))
    for part in parts:
        await part.started.wait()
    await tasks.end(whole)
    assert all(part.left < 0 for part in parts)


class TestRunUntil:
    async def test_works_end_when_the_event_is_set(self) -> None:
        stopping = asyncio.Event()
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("work")

        running = asyncio.create_task(tasks.run_until(stopping, work()))
        await asyncio.sleep(0)
        stopping.set()
        await running
        assert ended == ["work"]

    async def test_the_error_of_one_work_ends_the_others_and_is_raised(self) -> None:
        async def fails() -> None:
            raise ValueError("broken")

        async def waits() -> None:
            await asyncio.Event().wait()

        with pytest.raises(ValueError, match="broken"):
            await tasks.run_until(asyncio.Event(), waits(), fails())
