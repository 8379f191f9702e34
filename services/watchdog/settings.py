"""Settings of the watchdog; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from shared.asset_settings import AssetSettings


class WatchdogSettings(AssetSettings):
    """What every service needs, and where the watchdog remembers what it has read."""

    nats_user: str = "watchdog"
    home: Path = Field(Path.home() / ".trainmaster", description="directory that holds read models and the memory")

    @property
    def readmodel_file(self) -> Path:
        """Where the read model of jobs is."""
        return self.home / "readmodels" / "watchdog.sqlite"

    @property
    def memory_file(self) -> Path:
        """Where it is kept how far logs are read and what was found in them."""
        return self.home / "watchdog" / "memory.sqlite"

    @property
    def incidents_file(self) -> Path:
        """Where the log of incidents is, which is built from the record."""
        return self.home / "readmodels" / "incidents.sqlite"
