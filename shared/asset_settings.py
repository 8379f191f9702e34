"""Settings that submitter and scheduler share: the keys of secrets, and how sources of code and data are reached.

The launcher reads `SourceSettings` from its own environment and hands it to both; a service that runs alone reads the
same variables itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from shared.admission import Locations
from shared.settings import ServiceSettings, variable
from shared.variables import SettingsError
from shared.vault.keyring import Keyring, SealError


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach the object store; without an endpoint it is that of the region at AWS."""

    endpoint: str
    region: str
    key_id: str
    secret_key: str = field(repr=False)


class SourceSettings(BaseModel):
    """What the platform is told of the sources of code and data: `TRAINMASTER_S3_*`, `_GIT_*`, `_FILE_PREFIXES`."""

    model_config = ConfigDict(frozen=True)

    s3_endpoint: str = Field("", pattern=r"^(https?://.+)?$", description="URL of an S3 API; empty: that of AWS")
    s3_region: str = Field("us-east-1", min_length=1, description="region of the buckets")
    s3_key_id: str = Field("", description="access key id; empty: s3:// is refused")
    s3_secret_key_file: Path | None = Field(None, validate_default=True, description="file with the secret access key")

    s3_volumes: bool = Field(
        default=False, description="whether clusters mount s3:// by themselves, so that it needs no key here"
    )
    file_prefixes: str = Field(
        "",
        description="absolute paths under which users may give names to directories, separated by colons; "
        "none: only inside of storages, which admins make anywhere",
    )
    git_ca_file: Path | None = Field(None, description="certificates of authorities, in place of the machine's")

    def locations(self, home: Path) -> Locations:
        """The directories that may get names; `home` is the platform's own."""
        prefixes = tuple(prefix for prefix in self.file_prefixes.split(os.pathsep) if prefix)
        return Locations(prefixes, str(home.absolute()), has_s3=self.s3_volumes or self.s3() is not None)

    @field_validator("s3_secret_key_file")
    @classmethod
    def _both_or_none(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if bool(info.data.get("s3_key_id")) != (file is not None):
            raise ValueError("give the key id and the file with the secret key, or neither")
        return file

    def s3(self) -> S3Options | None:
        """The object store; None where none is configured. Raises SettingsError."""
        if self.s3_secret_key_file is None:
            return None
        secret_key = _content(self.s3_secret_key_file, "s3_secret_key_file").strip()
        return S3Options(self.s3_endpoint, self.s3_region, self.s3_key_id, secret_key)


class AssetSettings(ServiceSettings, SourceSettings):
    """Settings of a service that handles assets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret_keys_file: Path | None = Field(None, description="file with the keys that seal secrets")

    def keyring(self) -> Keyring | None:
        """Keys of the values of secrets; None where there is no file of them. Raises SettingsError."""
        if self.secret_keys_file is None:
            return None
        try:
            return Keyring.load(_content(self.secret_keys_file, "secret_keys_file"))
        except SealError as error:
            raise SettingsError(f"{self.secret_keys_file}: {error}") from None


def _content(file: Path, field: str) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise SettingsError(f"{variable(field)}: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(
            f"{variable(field)}: {file} is damaged, as it is no text; restore it from a backup"
        ) from None
