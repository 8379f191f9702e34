"""The diagnoser against a real JetStream."""

from __future__ import annotations

from services.diagnoser.bootstrap import bootstrap
from services.diagnoser.settings import DiagnoserSettings
from shared import events as ev
from shared.bus import Bus
from shared.bus.streams import DIAGNOSER_REQUESTS, DLQ
from shared.ids import new_job_id
from tests.support import jobs
from tests.support.nats import NatsServer
from tests.support.services import eventually, running


async def test_an_unexpected_request_is_kept_as_a_dead_letter_with_its_reason(
    bus: Bus, nats_server: NatsServer
) -> None:
    job = new_job_id()
    async with running(await bootstrap(DiagnoserSettings(nats_url=nats_server.url, nats_user=""))):
        await bus.observe(jobs.event(ev.DiagnosisRequested(nodes=("n-1",)), job))

        async def letters() -> int | None:
            return (await bus.js.stream_info(DLQ)).state.messages or None

        assert await eventually(letters) == 1
        letter = await bus.js.get_last_msg(DLQ, "tm.dlq.diagnoser.diagnosis-not-available")
        assert job in (letter.headers or {})["Tm-Detail"]
        assert (letter.headers or {})["Tm-Subject"] == f"tm.job.{job}.obs.diagnosis.requested"

        async def settled() -> bool | None:
            info = await bus.js.consumer_info(DIAGNOSER_REQUESTS.stream, DIAGNOSER_REQUESTS.durable)
            return True if info.num_ack_pending == 0 else None

        await eventually(settled)
