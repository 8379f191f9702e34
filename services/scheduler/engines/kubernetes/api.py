"""What the engine asks of an API server, made again where that may help.

Every request may be repeated: names are deterministic and conditions are compared. So a request whose answer was lost,
or that the server is too busy for, is made again for `patience_s`; a server may say when. Then, and at once where the
server names a later time, whoever asked is told that the server cannot be reached, and asks again later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from services.scheduler.engines.kubernetes.errors import is_busy, is_missing
from shared.clock import Clock
from shared.errors import UnavailableError
from shared.kubernetes.access import BRIEF, ApiError, KubernetesApi
from shared.kubernetes.documents import Json

AnswerT = TypeVar("AnswerT")

PAGE: Final = 500
_PAUSE_MAX_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long a request is made again, and how long the first pause is; pauses double."""

    patience_s: float = 10.0
    pause_s: float = 0.2


class PatientApi:
    """One API server."""

    def __init__(self, api: KubernetesApi, clock: Clock, patience: Patience | None = None) -> None:
        self._api = api
        self._clock = clock
        self._patience = patience or Patience()

    async def get(self, path: str, query: Json | None = None) -> Json:
        """An object; raises ApiError."""
        return await self._insist(partial(self._api.request, "GET", path, query=query))

    async def find(self, path: str) -> Json | None:
        """An object, or None where there is no such."""
        try:
            return await self.get(path)
        except ApiError as error:
            if is_missing(error):
                return None
            raise

    async def all(self, path: str, labels: str) -> list[Json]:
        """Every object with these labels."""
        found: list[Json] = []
        after = ""
        while True:
            query = {"labelSelector": labels, "limit": PAGE, **({"continue": after} if after else {})}
            page = await self.get(path, query)
            found += page.get("items") or ()
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return found

    async def create(self, path: str, document: Json) -> Json:
        """Make an object, which comes back as it is now; raises ApiError, 409 where it exists."""
        return await self._insist(partial(self._api.request, "POST", path, body=document))

    async def make(self, path: str, document: Json) -> None:
        """Make an object at which nobody wants to look; raises as `create`."""
        await self._insist(partial(self._api.exchange, "POST", path, body=document, accept=BRIEF))

    async def patch(self, path: str, change: Json) -> Json:
        """Merge a change into an object; one with a `resourceVersion` in it changes no other version (409)."""
        return await self._insist(partial(self._api.request, "PATCH", path, body=change))

    async def delete(self, path: str, options: Json | None = None) -> bool:
        """Have an object end; False where there is none."""
        try:
            await self._insist(partial(self._api.exchange, "DELETE", path, body=options or {}, accept=BRIEF))
        except ApiError as error:
            if is_missing(error):
                return False
            raise
        return True

    async def _insist(self, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        pauses = self._pauses()
        while True:
            try:
                return await ask()
            except UnavailableError:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise
            except ApiError as error:
                pause_s = next(pauses, None) if is_busy(error) else None
                if pause_s is None or error.retry_after_s > self._patience.patience_s:
                    raise
                pause_s = max(pause_s, error.retry_after_s)
            await self._clock.sleep(pause_s)

    def _pauses(self) -> Iterator[float]:
        pause_s, waited_s = self._patience.pause_s, 0.0
        while waited_s < self._patience.patience_s:
            yield pause_s
            waited_s += pause_s
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)
