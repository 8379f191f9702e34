"""Code of gangs that their pods fetch: kept for a week, given to whoever shows the gang's ticket.

Pods have no account. A ticket is the gang's name, sealed with the platform's keys as secrets are, so that every
scheduler can tell a true one without anything being kept, and nobody else can make one. It opens one archive, which the
gang's own commands can read anyway; the archive is gone after a week, and the ticket is worthless then.

A gang of a thousand pods asks a thousand times, so the archive is taken from the object store once and given from disk.
"""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from pathlib import Path
from typing import Final

from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeUpload
from shared.bus.blobs import Blobs
from shared.errors import ForbiddenError
from shared.ids import is_gang_id
from shared.vault.keyring import Keyring, SealError

COPIES_MAX: Final = 32
_PURPOSE: Final = "gang-code/"


class GangCode:
    """Keeps and gives archives; `directory` is its own, for copies on this machine."""

    def __init__(self, blobs: Blobs, keyring: Keyring | None, directory: Path) -> None:
        self._blobs = blobs
        self._keyring = keyring
        self._directory = directory
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def keep(self, gang: str, archive: Path) -> CodeUpload:
        """Keep the gang's archive, in place of one from an earlier try; raises StartRefusedError without keys."""
        if self._keyring is None:
            raise StartRefusedError("the code is large, and this platform has no keys to make tickets for it with")
        self._copy(gang).unlink(missing_ok=True)
        with archive.open("rb") as file:
            digest = await self._blobs.put_as(gang, file)
        ticket = self._keyring.seal(_PURPOSE + gang, gang)
        return CodeUpload(digest, base64.urlsafe_b64encode(ticket).decode())

    async def archive(self, gang: str, ticket: str) -> Path:
        """The gang's archive on this machine; raises ForbiddenError or NotFoundError."""
        if not (is_gang_id(gang) and self._opens(gang, ticket)):
            raise ForbiddenError("the ticket is not for this code")
        copy = self._copy(gang)
        async with self._one_at_a_time[gang]:
            if not copy.exists():
                await self._blobs.fetch(gang, copy)
                await asyncio.to_thread(_drop_oldest, self._directory)
        self._one_at_a_time.pop(gang, None)
        return copy

    def _copy(self, gang: str) -> Path:
        return self._directory / f"{gang}.tar.gz"

    def _opens(self, gang: str, ticket: str) -> bool:
        try:
            sealed = base64.urlsafe_b64decode(ticket)
            return self._keyring is not None and self._keyring.open(_PURPOSE + gang, sealed) == gang
        except (ValueError, SealError):
            return False


def _drop_oldest(directory: Path) -> None:
    copies = sorted(directory.glob("*.tar.gz"), key=lambda copy: copy.stat().st_mtime, reverse=True)
    for copy in copies[COPIES_MAX:]:
        copy.unlink(missing_ok=True)
