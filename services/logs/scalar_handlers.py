"""What the logs service does for those who ask for scalars: list, read and follow curves.

A follower sends what there is, then what comes. Between looks it waits for the job's bell, and not less than a second,
so that a job that writes without a pause costs one look a second.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from services.logs.adapters.bells import Bells
from services.logs.adapters.jobs import Jobs
from services.logs.domain.curves import Curve, CurveKey, Summary, Wanted, summary_of
from services.logs.scalar_documents import curve_document
from services.logs.scalars import ScalarReader
from shared.auth.principal import Principal
from shared.http.sse import ServerSentEvent
from shared.jobs import Job

_LOOK_AGAIN_S: Final = 5.0
_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ScalarHandlers:
    """The use cases."""

    jobs: Jobs
    reader: ScalarReader
    bells: Bells
    pause_s: float = _PAUSE_S

    async def tags(self, principal: Principal, reference: str, wanted: Wanted) -> list[Summary]:
        """What there is, without points."""
        return [summary_of(curve) for curve in await self.curves(principal, reference, wanted, None)]

    async def curves(self, principal: Principal, reference: str, wanted: Wanted, points: int | None) -> list[Curve]:
        """The curves, with at most so many points each."""
        job = await self.jobs.find(principal, reference)
        return await self._read(job, wanted, points)

    async def follow(
        self, principal: Principal, reference: str, wanted: Wanted, points: int
    ) -> AsyncIterator[ServerSentEvent]:
        """The curves, and their points as they come; until the job has ended."""
        return self._events(await self.jobs.find(principal, reference), wanted, points)

    async def _read(self, job: Job, wanted: Wanted, points: int | None) -> list[Curve]:
        def read() -> list[Curve]:
            curves = self.reader.curves(job.id, wanted)
            return curves if points is None else [curve.thinned(points) for curve in curves]

        return await asyncio.to_thread(read)

    async def _events(self, job: Job, wanted: Wanted, points: int) -> AsyncIterator[ServerSentEvent]:
        curves = await self._read(job, wanted, None)
        yield _event("curves", [curve.thinned(points) for curve in curves])
        sent = {curve.key: curve.count for curve in curves}
        while True:
            bell = self.bells.bell(job.id)
            reloaded = await self.jobs.reload(job)
            grown = _grown(await self._read(job, wanted, None), sent)
            if grown:
                yield _event("points", [curve.thinned(points) for curve in grown])
            if reloaded is None or reloaded.ended:
                yield ServerSentEvent("{}", event="end")
                return
            await asyncio.sleep(self.pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await bell.wait()


def _grown(curves: list[Curve], sent: dict[CurveKey, int]) -> list[Curve]:
    """The points that were not sent yet, which are noted as sent."""
    grown = []
    for curve in curves:
        before = sent.get(curve.key, 0)
        if curve.count > before:
            grown.append(curve.after(before))
        sent[curve.key] = curve.count
    return grown


def _event(kind: str, curves: list[Curve]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps({"tags": [curve_document(curve) for curve in curves]}), event=kind)
