"""An S3 bucket as files: list, download, upload; by way of `obstore`, which repeats what fails for a moment.

Downloads stream into a file in large pieces, written by threads. Errors become one sentence, `StoreError`; whether the
same call may succeed later is not told apart, as services in trouble answer with anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from shared.asset_settings import S3Options
from shared.units import MIB

if TYPE_CHECKING:
    from obstore.store import S3Config  # it is there for type checkers alone

PIECE_BYTES: Final = 4 * MIB
_RETRIES: Final = 5
_RETRY_S: Final = 60
_SENTENCE_CHARS: Final = 400

OnBytes = Callable[[int], None]


class StoreError(Exception):
    """What the object store had to say, in a sentence."""


class ObjectGoneError(StoreError):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object: its key below the prefix that was listed, and what tells its versions apart."""

    path: str
    size_bytes: int
    modified_ns: int


class Bucket:
    """The objects below one key of a bucket."""

    def __init__(self, options: S3Options, bucket: str, key: str) -> None:
        self._prefix = f"{key}/" if key else ""
        config: S3Config = {
            "region": options.region,
            "access_key_id": options.key_id,
            "secret_access_key": options.secret_key,
        }
        if options.endpoint:
            config["endpoint"] = options.endpoint
        self._store = S3Store(
            bucket,
            config=config,
            client_options={"allow_http": options.endpoint.startswith("http://"), "connect_timeout": "10s"},
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_S)},
        )

    async def list(self) -> list[Found]:
        """Every object."""
        found = []
        with _telling():
            async for page in obstore.list(self._store, prefix=self._prefix or None):
                for each in page:
                    modified_ns = int(each["last_modified"].timestamp() * 1_000_000) * 1_000
                    found.append(Found(each["path"].removeprefix(self._prefix), each["size"], modified_ns))
        return found

    async def download(self, path: str, file: IO[bytes], on_bytes: OnBytes) -> None:
        """Write an object's content to a file."""
        with _telling():
            answer = await obstore.get_async(self._store, self._prefix + path)
            async for piece in answer.stream(min_chunk_size=PIECE_BYTES):
                await asyncio.to_thread(file.write, piece)
                on_bytes(len(piece))

    async def upload(self, file: IO[bytes], path: str) -> None:
        """Make the rest of a file an object."""
        with _telling():
            await obstore.put_async(self._store, self._prefix + path, file, max_concurrency=4)


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectGoneError(_sentence(error)) from None
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    """The first line, in which obstore tells what went wrong where; what follows is for its developers."""
    text = str(error).strip().partition("\n\nDebug source")[0]
    return " ".join(text.split())[:_SENTENCE_CHARS]
