"""Settings of the watchdog; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from services.watchdog.adapters.webhook import Destinations
from shared.asset_settings import AssetSettings


class WatchdogSettings(AssetSettings):
    """What every service needs, and where the watchdog remembers what it has read."""

    nats_user: str = "watchdog"
    webhook_networks: str = Field(
        "", description="networks such as 10.0.0.0/8, with commas between, that webhooks may reach beside public ones"
    )
    home: Path = Field(Path.home() / ".trainmaster", description="directory that holds read models and the memory")

    @field_validator("webhook_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        Destinations.parse(text)
        return text

    @property
    def readmodel_file(self) -> Path:
        """Where the read model of jobs is."""
        return self.home / "readmodels" / "watchdog.sqlite"

    @property
    def memory_file(self) -> Path:
        """Where it is kept how far logs are read and what was found in them."""
        return self.home / "watchdog" / "memory.sqlite"

    @property
    def outbox_file(self) -> Path:
        """Where notices are that are not delivered yet."""
        return self.home / "watchdog" / "outbox.sqlite"

    @property
    def incidents_file(self) -> Path:
        """Where the log of incidents is, which is built from the record."""
        return self.home / "readmodels" / "incidents.sqlite"
