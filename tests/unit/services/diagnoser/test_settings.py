"""Settings of the diagnoser."""

from __future__ import annotations

from services.diagnoser.domain.verdict import Floors
from services.diagnoser.settings import DiagnoserSettings
from shared.settings import read_settings


def test_the_floors_are_the_usual_ones_unless_set():
    assert DiagnoserSettings().floors == Floors()
    changed = read_settings(DiagnoserSettings, {"TRAINMASTER_FLOOR_DISK_FREE_MIB": "1"})
    assert changed.floors == Floors(disk_free_bytes=1 << 20)
