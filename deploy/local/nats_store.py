"""Mending what a loss of power may leave in the files of nats-server, before it is started.

Messages are waited for; what a consumer has acknowledged is kept in `obs/<consumer>/o.dat`, which the server rewrites
in place. One that was cut in the middle makes it refuse the consumer, and with it the platform's start, for ever. Such
a file is removed: the consumer then begins with the first message, and whoever reacts sees again what it has seen,
which every reaction is made for. Nothing else is touched, nor is a file of a version that is not known here.

The file is 22, the version, and numbers in seven-bit groups: four positions, how many messages are pending, a base time
where any are, three numbers for each, then how many were redelivered and two numbers for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog

_MAGIC: Final = 22
_KNOWN_VERSION: Final = 2
_MORE: Final = 0x80
_POSITIONS: Final = 4


def mend_store(store: Path) -> list[Path]:
    """Remove states of consumers that are not whole; gives what was removed."""
    torn = [file for file in store.rglob("obs/*/o.dat") if is_torn(file.read_bytes())]
    for file in torn:
        structlog.get_logger().warning("consumer_state_torn", consumer=file.parent.name, file=str(file))
        file.unlink()
    return torn


def is_torn(content: bytes) -> bool:
    """Whether this is a consumer's state without its end; an empty one is none yet."""
    if not content:
        return False
    if content[0] != _MAGIC or len(content) == 1 or content[1] == 0:
        return True
    if content[1] != _KNOWN_VERSION:
        return False
    try:
        _read_whole(_numbers(content[2:]))
    except StopIteration:
        return True
    return False


def _read_whole(numbers: Iterator[int]) -> None:
    """Take all numbers that the state announces; raises StopIteration where one is missing."""
    for _ in range(_POSITIONS):
        next(numbers)
    pending = next(numbers)
    for _ in range(3 * pending + 1 if pending else 0):
        next(numbers)
    for _ in range(2 * next(numbers)):
        next(numbers)


def _numbers(content: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in content:
        value |= (byte & ~_MORE) << shift
        shift += 7
        if not byte & _MORE:
            yield value
            value = shift = 0
