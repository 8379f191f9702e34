from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.nodes import Device
from services.scheduler.domain.split import Split
from services.scheduler.engines.local.inventory import Gpus, Hardware, divided, look_at_machine
from shared.units import GIB, MIB


def machine(gpus: int = 0, cpu_m: int = 8000, memory_bytes: int = 64 * GIB) -> Hardware:
    devices = tuple(Device(f"GPU-{number}", "H200") for number in range(gpus))
    return Hardware("machine-id", "box", cpu_m, memory_bytes, Gpus(devices, "570.1"), (("kernel", "6.1"),))


def test_one_node_is_the_whole_machine():
    [node] = divided(machine(gpus=2), Split(1))

    assert (node.name, node.cpu_m, node.memory_bytes) == ("box", 8000, 64 * GIB)
    assert [device.id for device in node.devices] == ["GPU-0", "GPU-1"]
    assert node.facts == {"kernel": "6.1"}


def test_nodes_keep_their_ids_from_start_to_start():
    assert [node.id for node in divided(machine(), Split(4))] == [node.id for node in divided(machine(), Split(4))]
    assert divided(machine(), Split(1))[0].id == divided(machine(), Split(4))[0].id
    assert all(node.id.startswith("n-") for node in divided(machine(), Split(4)))


@given(count=st.integers(1, 16), gpus=st.integers(0, 9), cpu_m=st.integers(1, 9999), memory=st.integers(16 * MIB, GIB))
def test_shares_never_add_up_to_more_than_the_machine(count: int, gpus: int, cpu_m: int, memory: int):
    hardware = machine(gpus, cpu_m, memory)
    nodes = divided(hardware, Split(count))

    assert len({node.id for node in nodes}) == len({node.name for node in nodes}) == count
    assert sum(node.cpu_m for node in nodes) <= cpu_m
    assert sum(node.memory_bytes for node in nodes) <= memory
    assert tuple(device for node in nodes for device in node.devices) == hardware.gpus.devices


def test_nodes_stand_under_the_switches_that_are_asked_for():
    nodes = divided(machine(), Split(5, leaves=3, spines=2), "box")
    assert [node.facts["leaf"] for node in nodes] == ["leaf-0", "leaf-0", "leaf-1", "leaf-1", "leaf-2"]
    assert [node.facts["spine"] for node in nodes] == ["spine-0"] * 4 + ["spine-1"]
    assert "spine" not in divided(machine(), Split(2, leaves=2))[0].facts
    assert "leaf" not in divided(machine(), Split(2))[0].facts


def test_this_machine_has_processors_and_memory():
    hardware = look_at_machine()

    assert hardware.cpu_m >= 1000
    assert hardware.memory_bytes > 64 * MIB
    assert dict(hardware.facts)["kernel"]
