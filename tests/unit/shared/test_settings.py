from __future__ import annotations

import pytest
from pydantic import SecretStr

from shared.settings import ServiceSettings, read_settings, variables
from shared.variables import SettingsError, refuse_misspelt


def test_defaults_hold_where_nothing_is_set() -> None:
    assert read_settings(ServiceSettings, {}) == ServiceSettings()


def test_variables_are_the_field_names_in_capitals() -> None:
    environ = {"TRAINMASTER_PORT": "8081", "TRAINMASTER_NATS_PASSWORD": "hush", "PATH": "/bin", "TRAINMASTER_X": "1"}
    settings = read_settings(ServiceSettings, environ)
    assert (settings.port, settings.nats_password) == (8081, SecretStr("hush"))
    assert "hush" not in repr(settings)
    assert settings.bus_options().password == "hush"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read_settings(ServiceSettings, {"TRAINMASTER_PORT": ""}).port == 0


def test_every_wrong_variable_is_named_at_once_without_its_value() -> None:
    environ = {
        "TRAINMASTER_PORT": "s3cret",
        "TRAINMASTER_LOG_FORMAT": "xml",
        "TRAINMASTER_NATS_URL": "http://u:s3cret@nats",
    }
    with pytest.raises(SettingsError) as raised:
        read_settings(ServiceSettings, environ)
    for name in environ:
        assert name in raised.value.message
    assert "s3cret" not in raised.value.message


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read_settings(ServiceSettings, {}).port = 1  # type: ignore[misc]


def test_a_misspelt_variable_is_refused_with_the_one_that_is_meant() -> None:
    environ = {
        "TRAINMASTER_NATS_PASWORD": "s3cret",
        "TRAINMASTER_LOGLEVEL": "INFO",
        "NATS_UR": "",
        "TRAINMASTER_X": "1",
    }
    with pytest.raises(SettingsError) as raised:
        refuse_misspelt(variables(ServiceSettings), environ)
    assert raised.value.message == (
        "wrong settings: TRAINMASTER_LOGLEVEL: there is no such variable; give TRAINMASTER_LOG_LEVEL; "
        "TRAINMASTER_NATS_PASWORD: there is no such variable; give TRAINMASTER_NATS_PASSWORD"
    )
