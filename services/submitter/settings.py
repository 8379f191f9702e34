"""Settings of the submitter; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from shared.asset_settings import AssetSettings


class SubmitterSettings(AssetSettings):
    """What the submitter needs to know."""

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
