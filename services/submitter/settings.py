"""Settings of the submitter; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, SecretStr

from services.submitter.domain.locations import Locations
from shared.asset_settings import AssetSettings


class SubmitterSettings(AssetSettings):
    """What the submitter needs to know."""

    nats_user: str = "submitter"
    home: Path = Field(description="directory of the platform's state; the read model lies below it")
    signing_key_file: Path = Field(description="PEM file with the Ed25519 key that signs tokens")
    admin_name: str = Field("admin", min_length=1, description="name of the user that a platform without users gets")
    admin_password: SecretStr = Field(SecretStr(""), description="its password; empty: no user is made")
    file_prefixes: str = Field(
        "",
        description="absolute paths under which users may give names to directories, separated by colons; "
        "none: only inside of storages, which admins make anywhere",
    )

    replicas_here: bool = Field(
        default=False, description="whether replicas run on this machine, so that a missing directory can be told"
    )

    @property
    def read_model_file(self) -> Path:
        """Where the list of jobs is kept."""
        return self.home / "readmodels" / "submitter.sqlite"

    def locations(self) -> Locations:
        """The directories that may get names."""
        prefixes = tuple(prefix for prefix in self.file_prefixes.split(os.pathsep) if prefix)
        return Locations(prefixes, str(self.home.absolute()), has_s3=self.s3() is not None)
