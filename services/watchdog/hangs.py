"""Listening for silence: a look every second at each job whose hangs are looked for.

What is heard is kept by the scanners; here is only the question whether silence may be believed now, and the telling.
Before anything is told the job's partition must be read up to the present: a watchdog that lags behind, or a stream
that is full and takes nothing more, would make every job look silent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from services.watchdog.adapters.memory import Memory
from services.watchdog.bundles import Bundles
from services.watchdog.domain import silence
from services.watchdog.domain.silence import Heard, Hearing
from services.watchdog.incidents import Incidents
from services.watchdog.scanning import PartitionScanner
from services.watchdog.watched import Watched, WatchedJobs
from shared.clock import Clock
from shared.logs_wire import partition_of

LOOK_S: Final = 1.0
LAG_S: Final = 0.5


class HangDetector:
    """Tells jobs that hang from jobs that work."""

    def __init__(
        self,
        watched: WatchedJobs,
        memory: Memory,
        incidents: Incidents,
        clock: Clock,
        scanners: Sequence[PartitionScanner],
        hears: Callable[[], bool],
        bundles: Bundles,
    ) -> None:
        self._bundles = bundles
        self._scanners = scanners
        self._watched = watched
        self._memory = memory
        self._incidents = incidents
        self._clock = clock
        self._hears = hears
        self._hearing = Hearing()
        self._log = structlog.get_logger(service="watchdog")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_S)

    async def look(self) -> None:
        """Have evidence taken of what was told; judge every job once, where silence may be believed."""
        for watched in self._watched.with_silence():
            self._bundles.see_to(watched.job)
        now = self._clock.now()
        self._hearing = self._hearing.looked(now, hears=self._hears())
        if self._hearing.settled(now):
            for watched in self._watched.with_silence():
                try:
                    await self._judge(watched)
                except Exception:  # noqa: BLE001  # one job that cannot be judged must not keep the others from it
                    self._log.exception("silence_not_judged", job=watched.job.id)

    async def _has_heard(self, job: str, now: datetime) -> bool:
        """Whether nothing that the job wrote is still on its way; else the next look judges again."""
        heard = await self._scanners[partition_of(job)].has_heard_until(now - timedelta(seconds=LAG_S))
        if not heard:
            self._log.warning("silence_not_believed", job=job, reason="logs are read late, or the log stream is full")
        return heard

    async def _judge(self, watched: Watched) -> None:
        job, terms = watched.job, watched.terms
        if not silence.is_listened_to(job, terms):
            return
        present = silence.silence_of(job, terms, self._heard(watched))
        now = self._clock.now()
        incident = silence.judge(job, present, now, stops=terms.retries_hangs)
        if incident is not None and present is not None and await self._has_heard(job.id, now):
            await self._incidents.put(job, job.attempt.number, incident, silence.part_of(incident, present))

    def _heard(self, watched: Watched) -> Heard:
        key = watched.job.id, watched.job.attempt.number
        phases = self._memory.phases(*key) if watched.terms.phases else {}
        return Heard(self._memory.last_output(*key), phases)
