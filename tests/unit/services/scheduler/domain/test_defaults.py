"""What a new platform offers."""

from __future__ import annotations

from services.scheduler.domain.defaults import default_documents
from services.scheduler.domain.nodes import Device
from shared.catalog import InstanceType, Pool
from shared.units import GIB
from tests.support.cluster import node


def types(*nodes) -> dict[str, InstanceType]:
    return {one.name: one for one in default_documents("main", nodes) if isinstance(one, InstanceType)}


def test_there_is_a_public_pool_with_every_node():
    pool = next(one for one in default_documents("main", []) if isinstance(one, Pool))
    assert (pool.name, pool.spec.type, pool.spec.cluster) == ("public", "public", "main")
    assert not pool.spec.nodes.names
    assert not pool.spec.nodes.labels


def test_every_type_is_in_the_public_pool_and_has_a_price():
    made = types(node("a", gpus=2))
    assert all(one.spec.pools == ("public",) and one.spec.price_per_hour for one in made.values())


def test_two_small_replicas_fit_on_a_machine_of_two_cores_and_four_gib():
    small = types()["cpu-small"].spec
    assert 2 * small.cpu <= 2000
    assert 2 * small.memory <= 3.5 * GIB


def test_gpu_types_are_powers_of_two_with_an_equal_share_of_the_node():
    made = types(node("a", cores=64, memory_gib=512, gpus=8, model="NVIDIA H100 80GB"))
    gpu = {name: one.spec for name, one in made.items() if name.startswith("gpu")}
    assert list(gpu) == [f"gpu-nvidia-h100-80gb-{count}" for count in (1, 2, 4, 8)]
    half = gpu["gpu-nvidia-h100-80gb-4"]
    assert (half.cpu, half.memory, half.gpu.count, half.gpu.model) == (32_000, 256 * GIB, 4, "NVIDIA H100 80GB")


def test_each_model_has_types_of_its_own():
    mixed = node("a", gpus=1, model="A")
    other = node("b", gpus=3, model="B")
    assert {name for name in types(mixed, other) if name.startswith("gpu")} == {"gpu-a-1", "gpu-b-1", "gpu-b-2"}


def test_odd_models_get_names_that_a_spec_can_say():
    odd = node("a", gpus=1, model="型号 *?")
    assert odd.devices == (Device("a-gpu0", "型号 *?"),)
    assert "gpu-any-1" in types(odd)
