"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

from services.agent.settings import Settings


def test_variables_are_read_and_the_password_is_not_shown():
    settings = Settings.from_environment(
        {
            "TRAINMASTER_HOME": "/srv/tm",
            "TRAINMASTER_NATS_URL": "nats://nats:4222",
            "TRAINMASTER_NATS_USER": "agent-7",
            "TRAINMASTER_NATS_PASSWORD": "hunter2",
            "TRAINMASTER_MACHINE": "m7",
        }
    )
    expected = Settings(Path("/srv/tm"), "nats://nats:4222", "agent-7", "hunter2", "m7")
    assert settings == expected
    assert "hunter2" not in repr(settings)
    assert (settings.gangs, settings.state) == (Path("/srv/tm/gangs"), Path("/srv/tm/agent"))


def test_what_is_not_set_has_its_default():
    assert Settings.from_environment({}) == Settings(Path.home() / ".trainmaster")
