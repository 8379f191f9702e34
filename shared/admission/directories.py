"""Whether directories exist: looked up where a service runs on the machine of the replicas, else unknown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from typing import Protocol


class Directories(Protocol):
    """Directories of the machine on which replicas run."""

    async def missing(self, paths: Collection[str]) -> frozenset[str]:
        """Those of these absolute paths at which there certainly is nothing."""
        ...


class LocalDirectories:
    """The directories of this machine."""

    async def missing(self, paths: Collection[str]) -> frozenset[str]:
        """Those at which there is nothing; a place that may not be looked at is not among them."""
        return await asyncio.to_thread(lambda: frozenset(path for path in paths if _is_missing(path)))


class UnseenDirectories:
    """Replicas run elsewhere, so nothing is known."""

    async def missing(self, paths: Collection[str]) -> frozenset[str]:  # noqa: ARG002  # the port's signature
        """None that is known."""
        return frozenset()


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116  # a path that may be refused, where Path.exists would say that it is missing
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
