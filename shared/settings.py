"""Settings: environment variables read once, at start, into a frozen model; every mistake is told at once.

The variable of a field is `TRAINMASTER_` and the field's name in capitals. An empty variable counts as not set. Values
never appear in messages, because some of them are secrets. A process that is one service refuses misspelt names, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from shared.auth.keys import KeySet
from shared.bus import BusOptions
from shared.nats_servers import URLS_PATTERN
from shared.telemetry import LogFormat
from shared.variables import PREFIX, SettingsError


class ServiceSettings(BaseModel):
    """What every service needs to know; a service adds its own fields in a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nats_url: str = Field(
        "nats://127.0.0.1:4222", pattern=URLS_PATTERN, description="where JetStream is; several with commas between"
    )
    nats_user: str = Field("", description="NATS user of this service; empty where the server asks for none")
    nats_password: SecretStr = Field(SecretStr(""), description="its password")
    nats_ca_file: Path | None = Field(
        None,
        description="certificates of the authority that signed those of NATS; none: the connection is not encrypted",
    )
    host: str = Field("127.0.0.1", min_length=1, description="address that HTTP listens on")
    port: int = Field(0, ge=0, le=65535, description="port that HTTP listens on; 0 takes any that is free")
    jwks_file: Path | None = Field(None, description="JSON Web Key Set with the public keys that sign tokens")
    log_format: LogFormat = Field("json", description="json, or console for people")
    log_level: str = Field("INFO", pattern=r"^(DEBUG|INFO|WARNING|ERROR)$", description="least level that is logged")

    def bus_options(self) -> BusOptions:
        """How this service connects to NATS."""
        if self.nats_ca_file is not None and not self.nats_ca_file.is_file():
            raise SettingsError(f"{variable('nats_ca_file')}: there is no file {self.nats_ca_file}")
        password = self.nats_password.get_secret_value()
        return BusOptions(self.nats_url, self.nats_user, password, ca_file=self.nats_ca_file)

    def public_keys(self) -> KeySet:
        """The keys that sign tokens; raises SettingsError where there is no file of them."""
        if self.jwks_file is None:
            raise SettingsError(f"{variable('jwks_file')} is not set; give the file with the keys that sign tokens")
        return KeySet.load(self.jwks_file.read_text())


Settings = TypeVar("Settings", bound=BaseModel)


def variables(model: type[BaseModel]) -> frozenset[str]:
    """The environment variables that a model is read from."""
    return frozenset(map(variable, model.model_fields))


def variable(field: str) -> str:
    """The environment variable that sets a field."""
    return PREFIX + field.upper()


def read_settings(model: type[Settings], environ: Mapping[str, str]) -> Settings:
    """The model filled from the environment; raises SettingsError that names every wrong variable."""
    given = {field: environ[variable(field)] for field in model.model_fields if environ.get(variable(field))}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        wrong = [f"{variable(str(found['loc'][0]))}: {found['msg']}" for found in error.errors(include_input=False)]
        raise SettingsError("wrong settings: " + "; ".join(wrong)) from None
