"""Settings of the diagnoser."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.checking import Schedule
from services.diagnoser.domain.facts import Floors
from services.diagnoser.settings import DiagnoserSettings
from shared.settings import read_settings
from shared.variables import SettingsError


def test_the_floors_are_the_usual_ones_unless_set():
    assert DiagnoserSettings().floors == Floors()
    changed = read_settings(DiagnoserSettings, {"TRAINMASTER_FLOOR_DISK_FREE_MIB": "1"})
    assert changed.floors == Floors(disk_free_bytes=1 << 20)


def test_the_schedule_is_never_unless_set_and_its_hours_are_checked():
    assert DiagnoserSettings().schedule == Schedule()
    given = {"TRAINMASTER_CHECK_EVERY_H": "24", "TRAINMASTER_CHECK_HOURS": "22-4"}
    assert read_settings(DiagnoserSettings, given).schedule == Schedule(24, 22, 4)
    with pytest.raises(SettingsError, match=r"TRAINMASTER_CHECK_HOURS.*no hours of the day"):
        read_settings(DiagnoserSettings, {"TRAINMASTER_CHECK_HOURS": "night"})
