"""How each node of a job is to be diagnosed: by the profiles of the instance types that are placed on it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from services.diagnoser.domain.stages import STAGES, Profile
from shared.catalog.diagnosis import DiagnosisProfile
from shared.jobs import Job

# Floors of the document, as figures are called here, and by what each is multiplied to have their unit.
_FLOORS: Final[Mapping[str, tuple[str, float]]] = {
    "bf16_tflops": ("bf16Tflops", 1),
    "fp32_tflops": ("fp32Tflops", 1),
    "memory_gb_s": ("memoryGbS", 1),
    "host_device_gb_s": ("hostDeviceGbS", 1),
    "device_link_gb_s": ("deviceLinkMbS", 1000),
    "device_all_reduce_gb_s": ("deviceAllReduceMbS", 1000),
    "device_all_to_all_gb_s": ("deviceAllToAllMbS", 1000),
    "pair_gb_s": ("pairMbS", 1000),
    "all_reduce_gb_s": ("allReduceMbS", 1000),
    "all_to_all_gb_s": ("allToAllMbS", 1000),
    "cpu_ms": ("cpuMs", 1),
}


def profile_of(document: DiagnosisProfile | None) -> Profile:
    """What the document means; everything where there is none."""
    if document is None:
        return Profile()
    stages = document.stages.model_dump(by_alias=True)
    floors = {
        name: value * times
        for field, (name, times) in _FLOORS.items()
        if (value := getattr(document.floors, field)) is not None
    }
    seconds = document.seconds.model_dump(by_alias=True, exclude_none=True)
    off = frozenset(stage for stage in STAGES if not stages[stage])
    limits = {stage: seconds[stage] for stage in STAGES if stage in seconds}
    return Profile(off, floors, document.messages, limits)


def profiles_of(job: Job, of_type: Callable[[str], Profile]) -> dict[str, Profile]:
    """The profile of each node of the job's attempt."""
    types = {role.name: role.instance_type for role in job.submitted.resolved.roles}
    given: defaultdict[str, list[Profile]] = defaultdict(list)
    for role in job.attempt.placement.roles if job.attempt.placement else ():
        for node in set(role.nodes):
            given[node].append(of_type(types[role.role]))
    return {node: Profile.merged(profiles) for node, profiles in given.items()}
