"""Settings of the node agent, read from the environment.

| variable | meaning |
|---|---|
| `TRAINMASTER_HOME` | directory of the platform; `gangs/` in it is read, `agent/` is the agent's own |
| `TRAINMASTER_NATS_URL` | address of NATS |
| `TRAINMASTER_NATS_USER`, `TRAINMASTER_NATS_PASSWORD` | the agent's NATS user; its inbox is `_INBOX_<user>` |
| `TRAINMASTER_MACHINE` | name of this machine: the agent answers on `tm.agent.<machine>.<verb>` |
| `TRAINMASTER_PROBE_FAULTS` | for tests: nodes whose probes look bad, see `prober` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What the agent must be told."""

    home: Path
    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = "agent"
    nats_password: str = field(default="", repr=False)
    machine: str = "local"
    probe_faults: str = ""

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
            "probe_faults": environment.get("TRAINMASTER_PROBE_FAULTS"),
        }
        home = environment.get("TRAINMASTER_HOME") or Path.home() / ".trainmaster"
        return cls(home=Path(home), **{name: value for name, value in given.items() if value is not None})
