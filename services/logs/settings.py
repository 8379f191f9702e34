"""Settings of the logs service; each field is the environment variable `TRAINMASTER_<FIELD>`.

`KeepingSettings` is what the launcher of one machine hands on from its own environment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from services.logs.adapters.archive import Bucket, S3Archive
from services.logs.domain.retention import Limits
from shared.asset_settings import SourceSettings
from shared.settings import ServiceSettings, variable
from shared.units import parse_duration_s, parse_memory
from shared.variables import SettingsError

_BUCKET: Final = r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._=/-]*)?)?$"

_Duration = Annotated[float | None, BeforeValidator(lambda value: _parsed(value, parse_duration_s))]
_Amount = Annotated[int | None, BeforeValidator(lambda value: _parsed(value, parse_memory))]


class KeepingSettings(BaseModel):
    """Where finished parts of logs go, and how long logs of ended jobs are kept."""

    model_config = ConfigDict(frozen=True)

    log_archive: str = Field(
        "",
        pattern=_BUCKET,
        description="s3://bucket/prefix for finished parts of logs, and copies of event files; empty: there is none",
    )
    log_max_age: _Duration = Field(None, description="how long after its end a job's logs are kept; empty: for ever")
    log_max_per_user: _Amount = Field(None, description="most that the logs of a user's jobs may take; empty: no limit")
    log_max_per_project: _Amount = Field(None, description="the same of a project")

    def limits(self) -> Limits:
        """What is kept."""
        return Limits(self.log_max_age, self.log_max_per_user, self.log_max_per_project)


class TensorBoardSettings(BaseModel):
    """How many TensorBoards may run, and for how long unseen."""

    tensorboard_max: int = Field(4, ge=1, le=100, description="so many TensorBoards run at once at most")
    tensorboard_idle_s: float = Field(900, gt=0, description="one that nobody looks at is stopped after so long")


class LogsSettings(ServiceSettings, SourceSettings, KeepingSettings, TensorBoardSettings):
    """What every service needs, and where logs are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nats_user: str = "logs"
    home: Path = Field(Path.home() / ".trainmaster", description="directory of the platform, with logs/ in it")

    instance: str = Field(
        "main", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="name of this instance among those that share a home"
    )

    @property
    def own_directory(self) -> Path:
        """Where this instance keeps what can be built anew."""
        return self.directory / "instances" / self.instance

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

    def open_bucket(self) -> Callable[[str, str], S3Archive] | None:
        """Opens a bucket of the platform's object store; None where it has none. Raises SettingsError."""
        options = self.s3()
        return None if options is None else lambda name, prefix: S3Archive(options, Bucket(name, prefix))


def _parsed(value: object, parse: Callable[[str], float]) -> object:
    """A number from its text; what is a number already, or nothing, stays as it is."""
    return parse(value) if isinstance(value, str) else value
