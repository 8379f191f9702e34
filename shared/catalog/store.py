"""Writing catalog documents: every write names the revision that it replaces, so no change of somebody else is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import APIError

from shared.bus import Bus, BusError, BusUnavailableError, ConcurrentWriteError
from shared.bus.publish import EXPECTED_SEQUENCE, WRONG_SEQUENCE
from shared.catalog.base import CatalogDocument
from shared.catalog.view import DocumentT, Entry
from shared.catalog.watch import SUBJECT_PREFIX
from shared.errors import TooLargeError
from shared.units import KIB, format_bytes

DOCUMENT_MAX_BYTES: Final = 512 * KIB

_TIMEOUT_S: Final = 5.0


class CatalogStore:
    """The write side of the bucket `catalog`.

    Both methods raise ConcurrentWriteError where the document has another revision by now than the one expected (as
    `Catalog.revision` gave it), and BusUnavailableError where it is not known whether the write was taken.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def put(self, document: DocumentT, *, expected: int) -> Entry[DocumentT]:
        """Keep a document in place of the expected revision; raises TooLargeError."""
        body = json.dumps(document.document(), ensure_ascii=False, separators=(",", ":")).encode()
        if len(body) > DOCUMENT_MAX_BYTES:
            raise TooLargeError(f"the document passes {format_bytes(DOCUMENT_MAX_BYTES)}, the most that is taken here")
        return Entry(document, await self._publish(document.key_of(document.name), body, expected))

    async def delete(self, kind: type[CatalogDocument], name: str, *, expected: int) -> None:
        """Remove the document with this name at the expected revision."""
        await self._publish(kind.key_of(name), b"", expected, {"KV-Operation": "DEL"})

    async def _publish(self, key: str, body: bytes, expected: int, headers: Mapping[str, str] | None = None) -> int:
        guarded = {EXPECTED_SEQUENCE: str(expected), **(headers or {})}
        try:
            answer = await self._bus.js.publish(SUBJECT_PREFIX + key, body, timeout=_TIMEOUT_S, headers=guarded)
        except APIError as error:
            if error.err_code in WRONG_SEQUENCE:
                raise ConcurrentWriteError(key, expected) from error
            raise BusError(f"{key} was refused: {error.description}") from error
        except (NatsError, OSError, TimeoutError) as error:
            raise BusUnavailableError(f"JetStream did not take {key}: {type(error).__name__}; try again") from error
        return answer.seq
