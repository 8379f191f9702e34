"""Which GPUs of a node a diagnosis is about, where nobody has said by name. Pure.

Where an engine gives GPUs, a placement has their ids. On Kubernetes the kubelet gives them, once the pod is there, and
a placement only says how many: its names stand for no particular ones. Then the diagnosis is about all that no pod has
and nobody uses, since the job may get any of these. Those of others are told and not touched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from services.diagnoser.domain.readings import Reading
from shared.agent_facts import Gpu
from shared.agent_wire import Measurement

_MOST_TOLD = 8


def devices_given(wanted: Mapping[str, Collection[str]], readings: Mapping[str, Reading]) -> dict[str, Collection[str]]:
    """The GPUs of each node; what is wanted is taken by name where it has one, or where nothing was heard."""
    return {
        node: _given(names, readings[node].measurement) if node in readings else names for node, names in wanted.items()
    }


def _given(wanted: Collection[str], measured: Measurement) -> Collection[str]:
    """Where the driver lists fewer than are wanted, the names of the last ones stand for those that are missing."""
    if not measured.kubelet_gives or not wanted:
        return wanted
    if measured.gpus_unseen:
        return ()
    missing = sorted(wanted)[len(measured.gpus) :] if measured.gpus_are_whole else []
    return (*(gpu.id for gpu in measured.gpus if is_free(gpu)), *missing)


def is_free(gpu: Gpu) -> bool:
    """Whether it may be tested."""
    return not gpu.given_to and not gpu.used_by


def are_all_free(measured: Measurement) -> bool:
    """Whether all of the node may be tested, so that it passes with whatever of it a job gets."""
    return measured.kubelet_gives and measured.gpus_are_whole and all(map(is_free, measured.gpus))


def used_by_nobody_known(measured: Measurement) -> list[str]:
    """GPUs that are used though the kubelet has given them to nobody; whether for long, nobody knows."""
    strays = (gpu for gpu in measured.gpus if measured.kubelet_gives and gpu.used_by and not gpu.given_to)
    return [f"{gpu.id} was given to no pod, and {gpu.used_by}" for gpu in strays]


def why_not_tested(measured: Measurement) -> str:
    """Why GPUs of the node are not tested, in words; empty where all are."""
    if not measured.kubelet_gives:
        return ""
    if measured.gpus_unseen:
        return measured.gpus_unseen
    kept = [f"{gpu.id}: {gpu.given_to or gpu.used_by}" for gpu in measured.gpus if not is_free(gpu)]
    more = [f"and {len(kept) - _MOST_TOLD} more"] if len(kept) > _MOST_TOLD else []
    return "; ".join([*kept[:_MOST_TOLD], *more])
