"""Which GPUs a diagnosis is about where the kubelet gives them."""

from __future__ import annotations

from typing import Any

import pytest

from services.diagnoser.domain.given import are_all_free, devices_given, used_by_nobody_known, why_not_tested
from services.diagnoser.domain.readings import Reading
from shared.agent_facts import Gpu
from shared.agent_wire import decode_probe_answer, encode_probe_answer
from tests.support.probes import measurement

FREE, GIVEN = Gpu("GPU-a", "H200"), Gpu("GPU-b", "H200", given_to="pod ns/x has it")
STRAY = Gpu("GPU-c", "H200", used_by="processes use it: 7 (python)")
WANTED = ("gpu-0", "gpu-1")


def found(wanted: tuple[str, ...], *gpus: Gpu, **more: Any) -> tuple[str, ...]:
    measured = measurement(kubelet_gives=True, gpus=gpus, **more)
    return tuple(devices_given({"n-1": wanted}, {"n-1": Reading(measured, 0, 0)})["n-1"])


def test_it_is_about_those_that_no_pod_has_and_nobody_uses() -> None:
    assert found(WANTED, FREE, GIVEN, STRAY) == ("GPU-a",)
    assert found((), FREE) == ()
    assert found(WANTED, GIVEN, GIVEN) == ()


def test_fewer_than_are_wanted_are_missing_unless_each_is_given_to_several() -> None:
    assert found(WANTED, FREE) == ("GPU-a", "gpu-1")
    assert found(WANTED, FREE, gpus_are_whole=False) == ("GPU-a",)
    assert found(WANTED, gpus_unseen="not meant to") == ()


def test_names_of_placements_hold_where_an_engine_gives_them_and_where_nothing_was_heard() -> None:
    reading = Reading(measurement(gpus=(FREE,)), 0, 0)
    assert devices_given({"n-1": ("GPU-a",), "n-2": ("gpu-0",)}, {"n-1": reading}) == {
        "n-1": ("GPU-a",),
        "n-2": ("gpu-0",),
    }


def test_who_has_or_uses_the_others_is_told() -> None:
    measured = measurement(kubelet_gives=True, gpus=(FREE, GIVEN, STRAY))
    assert why_not_tested(measured) == "GPU-b: pod ns/x has it; GPU-c: processes use it: 7 (python)"
    assert used_by_nobody_known(measured) == ["GPU-c was given to no pod, and processes use it: 7 (python)"]
    assert why_not_tested(measurement(gpus=(STRAY,))) == ""
    assert why_not_tested(measurement(kubelet_gives=True, gpus=(GIVEN,) * 10)).endswith("; and 2 more")


@pytest.mark.parametrize(("gpus", "are_free"), [((FREE,), True), ((FREE, GIVEN), False), ((FREE, STRAY), False)])
def test_a_node_passes_for_all_jobs_where_all_of_its_gpus_were_free(gpus: tuple[Gpu, ...], are_free: bool) -> None:
    assert are_all_free(measurement(kubelet_gives=True, gpus=gpus)) is are_free


def test_agents_tell_of_it() -> None:
    measured = measurement(kubelet_gives=True, gpus=(GIVEN, STRAY), gpus_are_whole=False, gpus_unseen="why")
    assert decode_probe_answer(encode_probe_answer({"n-1": measured})) == {"n-1": measured}
