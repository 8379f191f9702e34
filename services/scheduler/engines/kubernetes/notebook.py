"""Writes down in a gang's record how replicas ended whose pods are gone, or will be: nothing else would remember it.

Ends of the same gang are gathered for a moment and written together. A write that fails is repeated with the next; the
ends have been reported by then, so that only a scheduler that starts later, before they are on record there, might
have to say that it does not know.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from services.scheduler.engines.kubernetes.api import PatientApi
from services.scheduler.engines.kubernetes.errors import is_missing
from services.scheduler.engines.kubernetes.gangs import EXITS_KEY, GangSeen, Key, exits_data
from services.scheduler.engines.kubernetes.paths import config_map_path
from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.engines.kubernetes.pods import Ended
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.ids import GangId
from shared.kubernetes.access import ApiError

GATHER_S: Final = 0.2


class Notebook:
    """Notes ends, in the picture at once and in records soon after."""

    def __init__(self, api: PatientApi, picture: Picture, clock: Clock) -> None:
        self._api = api
        self._picture = picture
        self._clock = clock
        self._waiting: dict[GangId, asyncio.Task[None]] = {}
        self._log = structlog.get_logger(service="scheduler")

    def note(self, gang: GangSeen, key: Key, ended: Ended) -> None:
        """A replica has ended in this way."""
        life = self._picture.gangs.get(gang.id)
        if life is None or key in life.ends:
            return
        life.ends[key] = ended
        if gang.id not in self._waiting:
            task = asyncio.create_task(self._write(gang.id))
            self._waiting[gang.id] = task
            task.add_done_callback(lambda _: self._waiting.pop(gang.id, None))

    async def close(self) -> None:
        """Wait until everything is written."""
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def _write(self, gang: GangId) -> None:
        await self._clock.sleep(GATHER_S)
        life = self._picture.gangs.get(gang)
        if life is None or life.record is None or life.is_record_gone:
            return
        self._waiting.pop(gang, None)
        exits = {**life.record.noted, **life.ends}
        try:
            path = config_map_path(life.record.namespace, gang)
            await self._api.patch(path, {"binaryData": {EXITS_KEY: exits_data(exits)}})
        except (ApiError, UnavailableError) as error:
            if isinstance(error, ApiError) and is_missing(error):
                return  # it went with the gang, of which nobody will ask any more
            self._log.warning("exits_not_noted", gang=gang, reason=error.message)
