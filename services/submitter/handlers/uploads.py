"""Uploads of code: into a temporary file, looked through, kept in the object store by digest."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final, cast

from services.submitter.adapters.archives import check_archive
from services.submitter.domain.answers import Answer
from shared.bus.blobs import Blobs
from shared.units import MIB

UPLOAD_MAX_BYTES: Final = 256 * MIB
_IN_MEMORY_BYTES: Final = MIB
_AT_ONCE: Final = 4


class Upload(Answer):
    """What is kept, under which name."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class UploadHandlers:
    """The use case about uploads; a few at once, the others wait."""

    blobs: Blobs
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def receive(self, pieces: AsyncIterator[bytes]) -> Upload:
        """Keep the archive that comes in pieces; raises InvalidInputError where it is none."""
        async with self.slots:
            with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as file:
                async for piece in pieces:
                    file.write(piece)
                size_bytes = file.tell()
                file.seek(0)
                await asyncio.to_thread(check_archive, file)
                return Upload(digest=await self.blobs.put(cast("BinaryIO", file)), size=size_bytes)
