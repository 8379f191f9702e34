"""Settings of the logs service; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from services.logs.adapters.archive import Bucket, S3Archive
from shared.asset_settings import SourceSettings
from shared.settings import ServiceSettings, SettingsError, variable

_BUCKET: Final = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._=/-]*)?)?$"


class TensorBoardSettings(BaseModel):
    """How many TensorBoards may run, and for how long unseen."""

    tensorboard_max: int = Field(4, ge=1, le=100, description="so many TensorBoards run at once at most")
    tensorboard_idle_s: float = Field(900, gt=0, description="one that nobody looks at is stopped after so long")


class LogsSettings(TensorBoardSettings, ServiceSettings, SourceSettings):
    """What every service needs, and where logs are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nats_user: str = "logs"
    home: Path = Field(Path.home() / ".trainmaster", description="directory of the platform, with logs/ in it")

    log_archive: str = Field(
        "",
        pattern=_BUCKET,
        description="s3://bucket/prefix for finished parts of logs; empty: all stay in the directory",
    )

    @property
    def directory(self) -> Path:
        """Where this service keeps everything."""
        return self.home / "logs"

    def archive(self) -> S3Archive | None:
        """Where finished segments go; None where they stay. Raises SettingsError."""
        if not self.log_archive:
            return None
        options = self.s3()
        if options is None:
            needed = f"{variable('s3_key_id')} and {variable('s3_secret_key_file')}"
            raise SettingsError(f"wrong settings: {variable('log_archive')}: an archive needs {needed}, too")
        name, _, prefix = self.log_archive.removeprefix("s3://").partition("/")
        return S3Archive(options, Bucket(name, prefix))
