"""Ports of adapters, from files as the kernel shows them."""

from __future__ import annotations

from pathlib import Path

from services.agent.probe.network import ports
from shared.agent_facts import port_of


def adapter(root: Path, name: str, port: int = 1, **files: str) -> None:
    """A port with these files below it; `counters__x` is the file x in `counters`."""
    given = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "counters__symbol_error": "3",
        "counters__link_downed": "1",
        "counters__port_xmit_data": "18446744073709551615",
        **files,
    }
    for file, text in given.items():
        path = root / name / "ports" / str(port) / file.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_a_port_has_its_states_its_speed_and_its_counters_of_errors(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_0")
    (port,) = map(port_of, ports(tmp_path))
    assert (port.name, port.layer, port.state, port.physical) == ("mlx5_0/1", "InfiniBand", "ACTIVE", "LinkUp")
    assert port.gbit_s == 400
    assert port.errors == {"symbol_error": 3, "link_downed": 1}


def test_roce_has_counters_of_its_own(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_bond_0", link_layer="Ethernet", hw_counters__packet_seq_err="12")
    (port,) = map(port_of, ports(tmp_path))
    assert (port.layer, port.errors["packet_seq_err"]) == ("Ethernet", 12)


def test_what_a_port_does_not_tell_is_left_out(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_1", rate="", counters__symbol_error="N/A (no PMA)")
    adapter(tmp_path, "mlx5_0", port=2)
    first, second = map(port_of, ports(tmp_path))
    assert (first.name, second.name) == ("mlx5_0/2", "mlx5_1/1")
    assert (second.gbit_s, second.errors) == (0.0, {"link_downed": 1})


def test_a_machine_without_adapters_has_no_ports(tmp_path: Path) -> None:
    assert ports(tmp_path / "nothing") == []
