"""What the scheduler asks of the world that runs replicas: the `Engine` port, and the nodes that it offers.

An engine never decides. It offers nodes, starts gangs, tells what became of each replica, and stops gangs. Every call
may be repeated, also by another process after a crash at any point: names are deterministic, a repeated `start`
completes what an interrupted one began, and no replica is ever run twice.

The order of life of a gang is `start`, reports, `stop` where somebody wants it, `forget` once every exit is on record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from services.scheduler.domain.nodes import SLOTS_MAX, Device, NodeState
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import Observation
from services.scheduler.ports.sandboxes import Execution, KeptSandbox
from shared.errors import TrainmasterError
from shared.ids import GangId


class StartRefusedError(TrainmasterError):
    """This gang cannot be started here, now or later; `stop` then confirms the end of each of its replicas."""

    code = "start-refused"


class PlaceTakenError(StartRefusedError):
    """Others have taken what this gang needs where it was placed; elsewhere it may be started."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A machine, or a share of one, on which the engine can run replicas; `facts` are for people and rules.

    What others than this platform hold of it (`others_…`) is not in the amounts that are offered. `because` says why it
    is in another state than Ready, if it is. `slots` is how many replicas it takes beside each other.
    """

    id: str
    name: str
    cpu_m: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    others_cpu_m: int = 0
    others_memory_bytes: int = 0
    others_devices: tuple[Device, ...] = ()
    state: NodeState = NodeState.READY
    because: str = ""
    slots: int = SLOTS_MAX
    others_slots: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that the engine can run replicas on; `no_mounts_because` is empty where jobs may have mounts.

    `schemes` are those of URIs that can be mounted, and `file_prefixes` directories that `file://` ones must lie in;
    none: the engine does not say. `no_volcano_because` is empty where gangs may be left to Volcano, as far as is known.
    """

    nodes: tuple[NodeOffer, ...]
    no_mounts_because: str = ""
    schemes: tuple[str, ...] = ()
    file_prefixes: tuple[str, ...] = ()
    engine: Literal["local", "kubernetes"] = "local"
    no_volcano_because: str = ""


class Engine(Protocol):
    """What runs replicas."""

    @property
    def lays_data(self) -> bool:
        """Whether it uses data and code that were brought to this machine; else it is told where they are."""
        ...

    async def inventory(self) -> Inventory:
        """Nodes with their capacity, whatever runs on them now."""
        ...

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran; none where a stop was asked for. Raises StartRefusedError."""
        ...

    def observe(self) -> AsyncIterator[Observation]:
        """What is known of every gang that is not forgotten, then `CaughtUp`, then what happens, without end."""
        ...

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        """Have every replica end within the grace, and report those that never started as exited.

        False where the engine does not know the gang: nothing of it runs, and nothing will be reported.
        """
        ...

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        """Every exit of the gang is on record: report it no more, and remove it once its logs are shipped.

        What it left is held until `keep_until`, where that is given; nothing of it runs then.
        """
        ...

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        """One more command for the sandbox of a running replica, with its rights; raises ExecRefusedError."""
        ...

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of attempts of the job that have ended."""
        ...

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:
        """Why replicas (`<role>-<index>`) of the gang do not run yet, for who does not follow `observe`."""
        ...
