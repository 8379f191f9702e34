"""What depends on where replicas run: who lays their directories, and how their processes are found and measured."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from services.agent.courier import Times
from services.agent.domain.resources import Look
from services.agent.grounds import Grounds, WholeMachine
from services.agent.prober import PlacesLook, look_at_places
from services.agent.sampler import look_at_processes
from services.agent.stacks import Finder, found_in_proc
from shared.agent_wire import Measurement
from shared.logs_wire import ReplicaRef

Looker = Callable[[Mapping[ReplicaRef, Path]], Look]


class Host(Protocol):
    """Where replicas run."""

    @property
    def look(self) -> Looker:
        """What replicas use now."""
        ...

    @property
    def find_processes(self) -> Finder:
        """Their processes."""
        ...

    @property
    def look_at_places(self) -> PlacesLook:
        """Whether directories that jobs mount can be used, as far as that can be told."""
        ...

    @property
    def grounds(self) -> Grounds:
        """What tests of a diagnosis may use."""
        ...

    def seen(self, measured: Measurement) -> Measurement:
        """The measurement with what the host knows beside."""
        ...

    def unknown(self) -> str:
        """Why some replicas of this machine may not be known; empty where all are."""
        ...

    def works(self, changed: Callable[[], None]) -> Sequence[Coroutine[Any, Any, None]]:
        """What is to be done all the time; `changed` is called when there is something to ship."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class LocalHost:
    """One machine, on which the local engine lays directories."""

    def __init__(self, times: Times) -> None:
        self.look: Looker = partial(_look_now, times)
        self.find_processes: Finder = found_in_proc
        self.look_at_places: PlacesLook = look_at_places
        self.grounds: Grounds = WholeMachine()

    def seen(self, measured: Measurement) -> Measurement:
        return measured

    def unknown(self) -> str:
        return ""

    def works(self, changed: Callable[[], None]) -> Sequence[Coroutine[Any, Any, None]]:  # noqa: ARG002
        return ()

    def close(self) -> None:
        pass


def _look_now(times: Times, replicas: Mapping[ReplicaRef, Path]) -> Look:
    return look_at_processes(replicas, at_s=times.monotonic_s(), at_ms=times.unix_ms())
