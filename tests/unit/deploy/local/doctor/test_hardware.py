"""GPUs, memory, cgroups, shared memory."""

from __future__ import annotations

from pathlib import Path

from deploy.local.doctor import hardware
from deploy.local.doctor.finding import Verdict
from services.scheduler.domain.nodes import Device
from services.scheduler.engines.local.inventory import Gpus


def card(pci: Path, name: str, vendor: str, kind: str) -> None:
    (pci / name).mkdir()
    (pci / name / "vendor").write_text(vendor + "\n")
    (pci / name / "class").write_text(kind + "\n")


def test_gpus_are_counted_by_model(tmp_path: Path):
    devices = tuple(Device(f"GPU-{number}", "H200" if number else "A100") for number in range(3))
    found = hardware.gpus(Gpus(devices, "550.1"), tmp_path)
    assert (found.verdict, found.message) == (Verdict.OK, "1 x A100, 2 x H200, driver 550.1")


def test_a_machine_without_gpus_is_well(tmp_path: Path):
    card(tmp_path, "0", "0x8086", "0x030000")
    card(tmp_path, "1", "0x10de", "0x040300")  # the sound of a graphics card
    assert hardware.gpus(Gpus(), tmp_path).verdict is Verdict.OK


def test_a_card_that_the_driver_does_not_tell_of_is_a_warning(tmp_path: Path):
    card(tmp_path, "0", "0x10de", "0x030200")
    found = hardware.gpus(Gpus(), tmp_path)
    assert found.verdict is Verdict.WARN
    assert "1 NVIDIA cards" in found.message
    assert "nvidia-smi" in found.mend


def test_a_small_machine_is_a_warning():
    assert hardware.memory(512 << 20).verdict is Verdict.WARN
    assert hardware.memory(8 << 30).verdict is Verdict.OK


def test_cgroups_are_missing_or_may_not_be_made_or_are_there(tmp_path: Path):
    missing = hardware.memory_limits(tmp_path)
    assert "systemd.unified_cgroup_hierarchy=1" in missing.mend
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert "as root" in hardware.memory_limits(tmp_path).mend
    (tmp_path / "memory").mkdir()
    assert "as root" in hardware.memory_limits(tmp_path).mend
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert hardware.memory_limits(tmp_path).verdict is Verdict.OK


def test_the_shared_memory_of_a_bare_container_is_a_warning(tmp_path: Path):
    found = hardware.shared_memory(tmp_path, 64 << 20)
    assert found.verdict is Verdict.WARN
    assert "remount" in found.mend
    assert hardware.shared_memory(tmp_path, 8 << 30).verdict is Verdict.OK
