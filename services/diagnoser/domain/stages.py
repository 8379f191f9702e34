"""The stages of a diagnosis, which of them a node gets, and how long each may take. Pure.

A stage is left out where the profile of the instance type says so, and where there is nothing for it: host and device
are the same thing on a CPU. A test measures until its figure is known, `work_s` at the longest for one device, pair or
group; `limit_s` later nobody waits for it, and no answer is the result. GPUs take longer: they are slow only once warm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self, get_args

from shared.diagnosis_wire import TestName

Stage = Literal["facts", "compute", "memory", "hostDevice", "devices", "pairs", "gang"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
# Those that a node passes by itself.
NODE_STAGES: Final[tuple[Stage, ...]] = ("compute", "memory", "hostDevice", "devices")
# Those of several nodes.
GANG_STAGES: Final[tuple[Stage, ...]] = ("pairs", "gang")

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a test measures at the longest, and how long it is waited for."""

    work_s: float
    limit_s: float


_CPU: Final[Mapping[TestName, Timing]] = {
    "begin": Timing(0.0, 30.0),
    "compute": Timing(0.3, 15.0),
    "memory": Timing(0.15, 10.0),
    "hostDevice": Timing(0.15, 10.0),
    "local": Timing(0.2, 10.0),
    "link": Timing(0.1, 10.0),
    "serve": Timing(0.0, 10.0),
    "exchange": Timing(0.15, 10.0),
    "gang": Timing(0.6, 15.0),
    "deep": Timing(0.0, 5.0),
}
_GPU: Final[Mapping[TestName, Timing]] = {
    "begin": Timing(0.0, 60.0),
    "compute": Timing(90.0, 120.0),
    "memory": Timing(5.0, 30.0),
    "hostDevice": Timing(4.0, 30.0),
    "local": Timing(6.0, 40.0),
    "link": Timing(0.5, 20.0),
    "serve": Timing(0.0, 10.0),
    "exchange": Timing(6.0, 30.0),
    "gang": Timing(20.0, 60.0),
    "deep": Timing(0.0, 5.0),
}
_SIZES_CPU: Final = (MIB, 4 * MIB)
_SIZES_GPU: Final = (MIB, 64 * MIB, 1024 * MIB)


STAGE_OF: Final[Mapping[TestName, Stage]] = {
    "compute": "compute",
    "memory": "memory",
    "hostDevice": "hostDevice",
    "local": "devices",
    "link": "devices",
    "exchange": "pairs",
    "gang": "gang",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What an instance type says of diagnoses: stages that are `off`, `floors` by figure, `sizes` of messages.

    `seconds` says of stages how long a test measures at the longest, where that is another time than usual.
    """

    off: frozenset[Stage] = frozenset()
    floors: Mapping[str, float] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    seconds: Mapping[Stage, float] = field(default_factory=dict)

    def has(self, stage: Stage) -> bool:
        """Whether the stage is made."""
        return stage not in self.off

    @property
    def node_stages(self) -> tuple[Stage, ...]:
        """Stages of single nodes that are made."""
        return tuple(stage for stage in NODE_STAGES if self.has(stage))

    @property
    def gang_stages(self) -> tuple[Stage, ...]:
        """Stages of several nodes that are made."""
        return tuple(stage for stage in GANG_STAGES if self.has(stage))

    def message_sizes(self, *, gpu: bool) -> tuple[int, ...]:
        """Bytes of the messages of collectives."""
        return self.sizes or (_SIZES_GPU if gpu else _SIZES_CPU)

    def timing(self, test: TestName, *, gpu: bool) -> Timing:
        """How long the test may take: what is beside measuring takes as long as ever."""
        usual = (_GPU if gpu else _CPU)[test]
        stage = STAGE_OF.get(test)
        work_s = self.seconds.get(stage, usual.work_s) if stage else usual.work_s
        return Timing(work_s, usual.limit_s + work_s - usual.work_s)

    @classmethod
    def merged(cls, profiles: Iterable[Self]) -> Self:
        """The profile of nodes that several types are placed on: what any wants is made, and the highest floor holds.

        The limit on the CPUs' time is the lowest, and of the times of a stage that are given the longest holds.
        """
        given = tuple(profiles)
        if not given:
            return cls()
        floors: dict[str, float] = {}
        for each in given:
            for name, value in each.floors.items():
                stricter = min if name == LIMIT_ON_CPUS else max
                floors[name] = stricter(floors.get(name, value), value)
        sizes = sorted({size for each in given for size in each.sizes})
        seconds: dict[Stage, float] = {}
        for stage, longest_s in ((stage, each) for profile in given for stage, each in profile.seconds.items()):
            seconds[stage] = max(seconds.get(stage, longest_s), longest_s)
        return cls(frozenset.intersection(*(each.off for each in given)), floors, tuple(sizes), seconds)


LIMIT_ON_CPUS: Final = "cpuMs"
EVERYTHING: Final = Profile()


def stages_of_gang(
    nodes: Collection[str], profile_of: Callable[[str], Profile], devices: Mapping[str, Collection[str]]
) -> frozenset[str]:
    """What nodes go through together: stages, and whether it is from GPU to GPU."""
    stages = frozenset(stage for node in nodes for stage in profile_of(node).gang_stages)
    with_gpus = bool(stages) and all(devices.get(node) for node in nodes)
    return stages | {"gpu"} if with_gpus else stages
