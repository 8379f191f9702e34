"""Finished segments, and records of jobs, in S3 buckets.

This is by way of `obstore`; it is called from threads, which wait for the network there. Each call tries again for some
seconds what fails for a moment. What then still fails is an UnavailableError: a reader is told so, an upload is
repeated later, and until it has succeeded the segment stays in the directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from shared.asset_settings import S3Options
from shared.errors import UnavailableError

if TYPE_CHECKING:
    from obstore.store import S3Config  # it is there for type checkers alone

_RETRIES: Final = 3
_DELETE_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and what all keys in it begin with."""

    name: str
    prefix: str = ""


class S3Archive:
    """Objects below a prefix of a bucket."""

    def __init__(self, options: S3Options, bucket: Bucket, *, patience_s: float = 15.0) -> None:
        self._prefix = f"{bucket.prefix.strip('/')}/" if bucket.prefix.strip("/") else ""
        config: S3Config = {
            "region": options.region,
            "access_key_id": options.key_id,
            "secret_access_key": options.secret_key,
        }
        if options.endpoint:
            config["endpoint"] = options.endpoint
        self._store = S3Store(
            bucket.name,
            config=config,
            client_options={
                "allow_http": options.endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=5),
                "timeout": timedelta(seconds=patience_s),
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=patience_s)},
        )

    def names(self, prefix: str) -> list[tuple[str, int]]:
        below = f"{self._prefix}{prefix}/" if prefix else self._prefix
        with _telling():
            pages = obstore.list(self._store, prefix=below or None)
            return [(each["path"].removeprefix(below), each["size"]) for page in pages for each in page]

    def read(self, key: str, start: int, length: int) -> bytes:
        with _telling():
            return bytes(obstore.get_range(self._store, self._prefix + key, start=start, length=length))

    def put(self, key: str, file: Path) -> None:
        with _telling():
            obstore.put(self._store, self._prefix + key, file)

    def delete(self, keys: Iterable[str]) -> None:
        named = [self._prefix + key for key in keys]
        for first in range(0, len(named), _DELETE_AT_ONCE):
            with _telling():
                obstore.delete(self._store, named[first : first + _DELETE_AT_ONCE])


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError, ValueError) as error:
        first_line = str(error).strip().partition("\n")[0]
        raise UnavailableError(f"the object store does not answer: {first_line[:300]}") from None
