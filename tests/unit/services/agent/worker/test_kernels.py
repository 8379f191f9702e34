"""What a rank does with its device alone, on a CPU through the same functions that GPUs are tested by."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from services.agent.worker import kernels  # noqa: E402
from services.agent.worker.devices import Device, cpu_names, open_device  # noqa: E402
from services.diagnoser.domain.golden import GOLDEN  # noqa: E402


@pytest.fixture
def device() -> Device:
    return Device("cpu-0", torch.device("cpu"))


def test_products_of_whole_numbers_are_exact_in_both_types_and_so_golden(device: Device) -> None:
    for name, kind in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        left, right = (kernels.whole_numbers(512, seed, torch.float64, device.at) for seed in (1, 2))
        exact = (left @ right).to(kind)
        assert float(exact.abs().max()) < 1 << 24
        assert kernels.checksum(exact) == GOLDEN[f"{name} exact 512"]
        assert torch.equal(kernels._product(device, 512, kind), exact)


def test_one_wrong_bit_in_a_product_gives_another_checksum(device: Device) -> None:
    product = kernels._product(device, 512, torch.float32)
    product.view(torch.int32)[100, 100] ^= 1
    assert kernels.checksum(product) != GOLDEN["fp32 exact 512"]


class Flaky(Device):
    """A device one of whose later products has a wrong bit."""

    def seconds(self, work: Any) -> float:
        took = super().seconds(work)
        made = work.__closure__[1].cell_contents if work.__closure__ else None
        if isinstance(made, list) and made:
            made[0].view(torch.int16)[0, 0] ^= 1
        return took


def test_a_product_that_comes_out_differently_once_is_noticed() -> None:
    flaky = Flaky("cpu-0", torch.device("cpu"))
    result = kernels.compute(flaky, 0.05, {})
    assert result["problem"] == "the same bf16 and fp32 product came out differently"
    assert {name: each for name, each in result["checksums"].items() if name in GOLDEN} == {
        name: GOLDEN[name] for name in ("bf16 exact 512", "fp32 exact 512")
    }


def test_drawn_numbers_use_all_bits_and_follow_from_the_seed(device: Device) -> None:
    one, same, other = (kernels.full_mantissas(64, seed, torch.float32, device.at) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    for bit in (*range(23), 31):
        assert 0.4 < float(((one.view(torch.int32) >> bit) & 1).double().mean()) < 0.6
    assert (-2 < float(one.min()) < -1.9, 1.9 < float(one.max()) < 2) == (True, True)


def test_ways_between_host_and_device_are_measured_in_both_directions(device: Device) -> None:
    result = kernels.host_device(device, 0.05, {})
    assert result["figures"].keys() == {"hostToDeviceGbS", "deviceToHostGbS"}
    assert min(result["figures"].values()) > 0
    assert result["problem"] == ""


def test_memory_that_does_not_keep_what_was_written_is_noticed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.memory(device, 0.02, {})["problem"] == ""
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, _source, non_blocking=False: self)
    assert kernels.memory(device, 0.02, {})["problem"] == "memory did not keep what was written"


def test_memory_whose_bits_stick_is_noticed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.keeps(device, 1 << 16)
    compare = torch.equal
    monkeypatch.setattr(torch, "equal", lambda one, other: compare(one | 1, other))
    assert not kernels.keeps(device, 1 << 16)


def test_a_figure_that_is_known_early_ends_the_measurement(device: Device) -> None:
    taken: list[int] = []

    class Counting(Device):
        def seconds(self, _work: Any) -> float:
            taken.append(1)
            return 0.001

    kernels.memory(Counting("cpu-0", torch.device("cpu")), 60.0, {"memoryGbS": 1.0})
    assert len(taken) == 5


def test_cpus_for_ranks_are_few_and_far_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(64)))
    assert cpu_names() == ["cpu-0", "cpu-32"]
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {7})
    assert cpu_names() == ["cpu-7"]


def test_a_gpu_is_opened_among_those_of_the_node_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    opened: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_device", opened.append)
    monkeypatch.setattr(torch, "zeros", lambda *_size, device: opened.append(device))
    device = open_device(("GPU-a", "GPU-b"), 1)
    assert (device.name, device.is_gpu, device.backend) == ("GPU-b", True, "nccl")
    assert opened == [torch.device("cuda", 1)] * 2
    import os

    assert os.environ.pop("CUDA_VISIBLE_DEVICES") == "GPU-a,GPU-b"
