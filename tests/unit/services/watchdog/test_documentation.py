"""The page for users names every preset row as it is matched."""

from __future__ import annotations

from pathlib import Path

from services.watchdog.domain.presets import PRESETS

TEXT = (Path(__file__).parents[4] / "docs" / "retry.md").read_text()


def test_every_preset_row_is_in_the_documentation() -> None:
    rows = [f"| `{rule.id}` | {' and '.join(f'`{text}`' for text in rule.fragments)} |" for rule in PRESETS]
    assert [row for row in rows if row not in TEXT] == []
