"""One stream as a file and back: JetStream's own snapshots, which hold messages, settings and consumers.

The server sends a snapshot in chunks and waits for an answer to each; an empty one is the end. Restoring is the same
the other way round: the server names a subject, answers every chunk, and after the empty one says what it has made.
What is in the chunks (a compressed archive of the stream's files) is the server's own business.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from shared.errors import TrainmasterError, UnavailableError
from shared.units import KIB

_CHUNK_BYTES: Final = 128 * KIB
_SILENCE_S: Final = 60.0
_API: Final = "$JS.API.STREAM"


class SnapshotError(TrainmasterError):
    """A stream cannot be backed up or restored; the message says which and why."""

    code = "unavailable"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a stream's file: settings and state as the server told them, and the digest of the content."""

    config: Mapping[str, Any]
    state: Mapping[str, Any]
    sha256: str
    size_bytes: int


async def take(client: Client, stream: str, file: Path) -> Snapshot:
    """Write the stream into the file; raises SnapshotError, UnavailableError."""
    inbox = client.new_inbox()
    chunks: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await client.subscribe(inbox, cb=chunks.put, pending_bytes_limit=-1, pending_msgs_limit=-1)
    try:
        request = {"deliver_subject": inbox, "chunk_size": _CHUNK_BYTES}
        begun = await _ask(client, f"{_API}.SNAPSHOT.{stream}", json.dumps(request).encode(), stream)
        with file.open("wb") as out:
            digest = await _receive(chunks, out, stream)
            size_bytes = out.tell()
    finally:
        await subscription.unsubscribe()
    return Snapshot(begun["config"], begun["state"], digest, size_bytes)


async def _receive(chunks: asyncio.Queue[Msg], out: BinaryIO, stream: str) -> str:
    digest = hashlib.sha256()
    while True:
        try:
            async with asyncio.timeout(_SILENCE_S):
                chunk = await chunks.get()
        except TimeoutError:
            raise UnavailableError(f"{stream}: the server sent nothing for {_SILENCE_S:g} s") from None
        if not chunk.data:
            if problem := (chunk.headers or {}).get("Description"):
                raise SnapshotError(f"{stream}: {problem}")
            return digest.hexdigest()
        out.write(chunk.data)
        digest.update(chunk.data)
        if chunk.reply:
            await chunk.respond(b"")


async def restore(client: Client, stream: str, file: Path, snapshot: Snapshot) -> Mapping[str, Any]:
    """Make the stream of the file; gives its state. Raises SnapshotError, also where it exists, UnavailableError."""
    request = {"config": dict(snapshot.config), "state": dict(snapshot.state)}
    begun = await _ask(client, f"{_API}.RESTORE.{stream}", json.dumps(request).encode(), stream)
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            answer = await _request(client, begun["deliver_subject"], chunk, stream)
            if answer:
                _checked(answer, stream)
    made = _checked(await _request(client, begun["deliver_subject"], b"", stream), stream)
    state: Mapping[str, Any] = made["state"]
    return state


async def _ask(client: Client, subject: str, body: bytes, stream: str) -> Mapping[str, Any]:
    return _checked(await _request(client, subject, body, stream), stream)


async def _request(client: Client, subject: str, body: bytes, stream: str) -> bytes:
    try:
        return (await client.request(subject, body, timeout=_SILENCE_S)).data
    except (NatsError, OSError, TimeoutError) as error:
        raise UnavailableError(f"{stream}: JetStream did not answer: {type(error).__name__}") from error


def _checked(answer: bytes, stream: str) -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(answer)
    if "error" in told:
        raise SnapshotError(f"{stream}: {told['error'].get('description', 'refused')}")
    return told
