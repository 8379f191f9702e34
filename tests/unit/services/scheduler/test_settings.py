"""The scheduler's settings and what follows from them."""

from __future__ import annotations

from pathlib import Path

from services.scheduler.settings import SchedulerSettings
from shared.settings import read_settings


def test_two_platforms_on_one_machine_are_two_schedulers():
    homes = (SchedulerSettings(home=Path(home), machine="m") for home in ("/a", "/b"))
    assert len({settings.identity for settings in homes}) == 2


def test_settings_come_from_the_environment():
    settings = read_settings(SchedulerSettings, {"TRAINMASTER_HOME": "/srv/tm", "TRAINMASTER_NODES": "4"})
    assert (settings.nodes, settings.nats_user) == (4, "scheduler")
    assert settings.readmodel_file == Path("/srv/tm/readmodels/scheduler.sqlite")
