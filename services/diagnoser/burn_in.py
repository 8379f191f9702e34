"""What the diagnoser does with the first steps of a running job: judge them, tell the ledger, tell the job's record.

Nothing is asked of the job or of its nodes. The verdict is an observation, one for an attempt, so an attempt that has
one is not judged again. What it says of nodes is on record before it.
"""

from __future__ import annotations

import structlog

from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.domain.burn_in import judge_steps
from shared.bus import Bus
from shared.clock import Clock
from shared.events import BurnInJudged, Event, NodeLagged, SlowRank, StepsMeasured
from shared.jobs import Attempt, Job, Recorded
from shared.telemetry import current_traceparent


class BurnIn:
    """Handler of `steps.measured`."""

    def __init__(self, bus: Bus, ledger: HealthLedger, clock: Clock) -> None:
        self._bus = bus
        self._ledger = ledger
        self._clock = clock
        self._log = structlog.get_logger(service="diagnoser")

    async def on_measured(self, recorded: Recorded) -> None:
        """Judge the attempt's first steps, unless that was done."""
        event = recorded.event
        job = await self._bus.load_job(event.subject)
        attempt = next((each for each in job.attempts if each.number == event.attempt), None) if job else None
        if job is None or attempt is None or attempt.burn_in is not None or not isinstance(event.data, StepsMeasured):
            return
        await self._ledger.caught_up.wait()
        verdict = judge_steps(event.data, {(each.role, each.index): each.node for each in attempt.replicas.values()})
        for lagged in _on_nodes(job, attempt, verdict.suspects):
            await self._ledger.doubt(lagged)
        await self._bus.observe(self._event(job, attempt, verdict, event))
        self._log.info("burn_in_judged", suspects=[each.node for each in verdict.suspects], ranks=verdict.ranks)

    def _event(self, job: Job, attempt: Attempt, verdict: BurnInJudged, cause: Event) -> Event:
        return Event.of(
            verdict,
            job=job.id,
            attempt=attempt.number,
            time=self._clock.now(),
            owner=job.owner,
            project=job.project,
            causation=cause.message_id,
            traceparent=current_traceparent(),
        )


def _on_nodes(job: Job, attempt: Attempt, suspects: tuple[SlowRank, ...]) -> list[NodeLagged]:
    """One sign against each node, by the worst of its ranks."""
    worst = {each.node: each for each in reversed(suspects)}
    return [
        NodeLagged(
            cluster=attempt.placement.cluster if attempt.placement else "",
            node=node,
            name=next((each.where for each in attempt.replicas.values() if each.node == node), node),
            job=job.id,
            attempt=attempt.number,
            rank=each.rank,
            reason=f"{job.name}: {each.why}",
        )
        for node, each in sorted(worst.items())
    ]
