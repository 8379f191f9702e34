"""Large bodies by digest in a NATS object store: code archives, and whatever would not fit into an event."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from nats.errors import ConnectionClosedError, NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError, ObjectNotFoundError
from nats.js.object_store import ObjectStore

from shared.bus.errors import BusUnavailableError
from shared.errors import NotFoundError as NoSuchThingError

_CHUNK_BYTES: Final = 1 << 20


def file_digest(file: BinaryIO) -> str:
    """`sha256:<hex>` of a file from its present position on; the position is put back."""
    start = file.tell()
    hashed = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        hashed.update(chunk)
    file.seek(start)
    return f"sha256:{hashed.hexdigest()}"


@contextlib.contextmanager
def _unavailable(digest: str) -> Iterator[None]:
    """Say plainly that NATS is away where it is."""
    try:
        yield
    except (NatsTimeoutError, NoRespondersError, ConnectionClosedError) as error:
        raise BusUnavailableError(f"JetStream did not answer for {digest}") from error


class Blobs:
    """Objects of one bucket, named by the digest of what they hold, or, in a bucket for that, by another name."""

    def __init__(self, js: JetStreamContext, bucket: str) -> None:
        self._js = js
        self._bucket = bucket

    async def put(self, file: BinaryIO) -> str:
        """Keep a file's content; gives its digest. The same content is kept once."""
        digest = await asyncio.to_thread(file_digest, file)
        with _unavailable(digest):
            store = await self._store()
            if not await self._has(store, digest):
                await store.put(digest, file)  # type: ignore[arg-type]  # any binary file is read as well
        return digest

    async def put_as(self, name: str, file: BinaryIO) -> str:
        """Keep a file's content under a name of its own, in place of what had it; gives its digest."""
        digest = await asyncio.to_thread(file_digest, file)
        with _unavailable(name):
            await (await self._store()).put(name, file)  # type: ignore[arg-type]  # any binary file is read as well
        return digest

    async def exists(self, digest: str) -> bool:
        """Whether there is an object of this digest."""
        with _unavailable(digest):
            return await self._has(await self._store(), digest)

    async def fetch(self, digest: str, target: Path) -> None:
        """Write an object to a file, by way of a temporary one; raises NotFoundError."""
        partial = target.with_suffix(".part")
        try:
            with _unavailable(digest), partial.open("wb") as file:
                store = await self._store()
                await store.get(digest, writeinto=file)
        except (NotFoundError, ObjectNotFoundError) as error:
            raise NoSuchThingError("uploaded archive", digest) from error
        partial.replace(target)

    async def remove(self, digest: str) -> None:
        """Remove an object; one that is not there is removed already."""
        with _unavailable(digest), contextlib.suppress(NotFoundError, ObjectNotFoundError):
            await (await self._store()).delete(digest)

    async def _store(self) -> ObjectStore:
        return await self._js.object_store(self._bucket)

    @staticmethod
    async def _has(store: ObjectStore, digest: str) -> bool:
        try:
            await store.get_info(digest)
        except (NotFoundError, ObjectNotFoundError):
            return False
        return True
