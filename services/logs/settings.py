"""Settings of the logs service; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from shared.settings import ServiceSettings


class LogsSettings(ServiceSettings):
    """What every service needs, and where logs are kept."""

    nats_user: str = "logs"
    home: Path = Field(Path.home() / ".trainmaster", description="directory of the platform, with logs/ in it")

    @property
    def directory(self) -> Path:
        """Where this service keeps everything."""
        return self.home / "logs"
