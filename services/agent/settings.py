"""Settings of the node agent, read from the environment.

| variable | meaning |
|---|---|
| `TRAINMASTER_HOME` | directory of the platform; `gangs/` in it is read, `agent/` is the agent's own |
| `TRAINMASTER_NATS_URL` | address of NATS, several with commas between |
| `TRAINMASTER_NATS_CA_FILE` | certificates of the authority of NATS; without it the connection is not encrypted |
| `TRAINMASTER_NATS_USER`, `TRAINMASTER_NATS_PASSWORD` | the agent's NATS user; its inbox is `_INBOX_<user>` |
| `TRAINMASTER_MACHINE` | name of this machine: the agent answers on `tm.agent.<machine>.<verb>` |
| `TRAINMASTER_SAMPLE_S` | seconds between two samples of what replicas use; default 5 |
| `TRAINMASTER_PROBE_PYTHON` | interpreter that has PyTorch, for tests of a diagnosis; default the agent's own |
| `TRAINMASTER_PROBE_FAULTS` | for tests: nodes whose probes look bad, see `prober` |
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_SAMPLE_MIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """What the agent must be told."""

    home: Path
    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = "agent"
    nats_password: str = field(default="", repr=False)
    machine: str = "local"
    probe_faults: str = ""
    probe_python: str = sys.executable
    sample_s: float = 5.0
    nats_ca_file: Path | None = None

    @property
    def gangs(self) -> Path:
        """Where the engine puts the directories of gangs."""
        return self.home / "gangs"

    @property
    def state(self) -> Path:
        """Where the agent remembers what is kept."""
        return self.home / "agent"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that the variables above give; what is not set has its default."""
        given = {
            "nats_url": environment.get("TRAINMASTER_NATS_URL"),
            "nats_user": environment.get("TRAINMASTER_NATS_USER"),
            "nats_password": environment.get("TRAINMASTER_NATS_PASSWORD"),
            "machine": environment.get("TRAINMASTER_MACHINE"),
            "probe_python": environment.get("TRAINMASTER_PROBE_PYTHON") or None,
            "probe_faults": environment.get("TRAINMASTER_PROBE_FAULTS"),
        }
        home = environment.get("TRAINMASTER_HOME") or Path.home() / ".trainmaster"
        authority = environment.get("TRAINMASTER_NATS_CA_FILE")
        named = {name: value for name, value in given.items() if value is not None}
        return cls(
            home=Path(home),
            sample_s=_sample_s(environment),
            nats_ca_file=Path(authority) if authority else None,
            **named,
        )


def _sample_s(environment: Mapping[str, str]) -> float:
    given = environment.get("TRAINMASTER_SAMPLE_S") or "5"
    try:
        return max(_SAMPLE_MIN_S, float(given))
    except ValueError:
        raise SystemExit(f"TRAINMASTER_SAMPLE_S: {given!r} is no number of seconds, such as 5") from None
