"""Settings of the submitter; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from shared.asset_settings import AssetSettings


class ArchiveSettings(BaseModel):
    """What the launcher reads from its own environment for the submitter: `TRAINMASTER_ARCHIVE_AFTER_S`."""

    model_config = ConfigDict(frozen=True)

    archive_after_s: float = Field(
        7 * 24 * 3600, ge=1, description="seconds from the end of a job until its events move from JOBS to ARCHIVE"
    )


class SubmitterSettings(AssetSettings, ArchiveSettings):
    """What the submitter needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nats_user: str = "submitter"
    home: Path = Field(description="directory of the platform's state; the read model lies below it")
    signing_key_file: Path = Field(description="PEM file with the Ed25519 key that signs tokens")
    admin_name: str = Field("admin", min_length=1, description="name of the user that a platform without users gets")
    admin_password: SecretStr = Field(SecretStr(""), description="its password; empty: no user is made")
    replicas_here: bool = Field(
        default=False, description="whether replicas run on this machine, so that a missing directory can be told"
    )

    @property
    def read_model_file(self) -> Path:
        """Where the list of jobs is kept."""
        return self.home / "readmodels" / "submitter.sqlite"
