"""The scheduler's settings and what follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.domain.split import Split
from services.scheduler.settings import SchedulerSettings
from shared.settings import SettingsError, read_settings


def test_two_platforms_on_one_machine_are_two_schedulers():
    homes = (SchedulerSettings(home=Path(home), machine="m") for home in ("/a", "/b"))
    assert len({settings.identity for settings in homes}) == 2


def test_settings_come_from_the_environment():
    settings = read_settings(SchedulerSettings, {"TRAINMASTER_HOME": "/srv/tm", "TRAINMASTER_NODES": "4"})
    assert (settings.nodes, settings.nats_user) == (4, "scheduler")
    assert settings.readmodel_file == Path("/srv/tm/readmodels/scheduler.sqlite")


def test_switches_that_nothing_stands_under_are_refused():
    given = {"TRAINMASTER_NODES": "4", "TRAINMASTER_LEAVES": "2"}
    assert read_settings(SchedulerSettings, given).split == Split(4, 2, 0)
    with pytest.raises(SettingsError, match="5 leaves are more than the 4 nodes"):
        read_settings(SchedulerSettings, given | {"TRAINMASTER_LEAVES": "5"})
    with pytest.raises(SettingsError, match="3 spines are more than the 2 leaves"):
        read_settings(SchedulerSettings, given | {"TRAINMASTER_SPINES": "3"})
