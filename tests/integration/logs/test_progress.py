"""How far a job is becomes an event of the job."""

from __future__ import annotations

from shared import events as ev
from shared.logs_wire import Chunk
from tests.support.logs import KeptLogs, log_of, publish, submit
from tests.support.services import eventually


async def test_a_line_of_the_log_becomes_an_observation_of_its_job(kept: KeptLogs):
    job = await submit(kept.bus)
    line = b"train:  45%|####      | 450/1000 [00:45<00:55, 10.0it/s, loss=0.123]\r"
    await publish(kept.bus, Chunk(log_of(job), 0, line))

    async def look() -> ev.ProgressReported | None:
        loaded = await kept.bus.load_job(job)
        assert loaded is not None
        return loaded.attempt.progress

    progress = await eventually(look)
    assert (progress.step, progress.total_steps, progress.loss, progress.fraction) == (450, 1000, 0.123, 0.45)
    assert progress.estimated_end is not None
    assert round((progress.estimated_end - progress.at).total_seconds()) == 55
