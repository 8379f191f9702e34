"""Settings about secrets and sources: whole or refused, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.asset_settings import AssetSettings, S3Options, SourceSettings
from shared.settings import read_settings
from shared.variables import SettingsError
from shared.vault import Keyring


def settings(**variables: str) -> SourceSettings:
    return read_settings(SourceSettings, {f"TRAINMASTER_{name.upper()}": value for name, value in variables.items()})


def test_without_a_key_there_is_no_object_store() -> None:
    assert settings().s3() is None
    assert settings(s3_endpoint="https://s3.example").s3() is None


def test_the_secret_key_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("top-secret\n")
    options = settings(s3_key_id="me", s3_secret_key_file=str(tmp_path / "key")).s3()
    assert options == S3Options("", "us-east-1", "me", "top-secret")
    assert "top-secret" not in repr(options)


@pytest.mark.parametrize(
    "variables", [{"s3_key_id": "me"}, {"s3_secret_key_file": "/x"}, {"s3_endpoint": "s3.example"}]
)
def test_halves_are_refused(variables: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        settings(**variables)


def test_a_file_that_cannot_be_read_is_named_with_its_variable(tmp_path: Path) -> None:
    gone = settings(s3_key_id="me", s3_secret_key_file=str(tmp_path / "gone"))
    with pytest.raises(SettingsError, match="TRAINMASTER_S3_SECRET_KEY_FILE"):
        gone.s3()
    with pytest.raises(SettingsError, match="TRAINMASTER_SECRET_KEYS_FILE"):
        AssetSettings(secret_keys_file=tmp_path / "gone").keyring()


@pytest.mark.parametrize("content", [b"", b'{"keys', b"\xff\xfe"])
def test_a_damaged_file_of_keys_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(SettingsError, match=f"{tmp_path}/keys.* damaged"):
        AssetSettings(secret_keys_file=tmp_path / "keys").keyring()


def test_keys_of_secrets_are_read_where_there_are_any(tmp_path: Path) -> None:
    keys = Keyring.generate()
    (tmp_path / "keys").write_text(keys.text())
    assert AssetSettings(secret_keys_file=tmp_path / "keys").keyring() == keys
    assert AssetSettings().keyring() is None
