"""Engines that are ready, and how to let go of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from services.scheduler.ports.engine import Engine


@dataclass(frozen=True, slots=True)
class OpenEngines:
    """Engines that are ready, by the names of their clusters, the first one first; replicas outlive `close`."""

    engines: Mapping[str, Engine]
    close: Callable[[], Awaitable[None]]
