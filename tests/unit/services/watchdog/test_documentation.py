"""The page for users names every preset row as it is matched."""

from __future__ import annotations

from pathlib import Path

from services.watchdog.catalogue import preset_rows

TEXT = (Path(__file__).parents[4] / "docs" / "retry.md").read_text()


def test_every_preset_row_is_in_the_documentation() -> None:
    texts = {rule.id: [fragment.text for fragment in rule.line_rule.any_of[0]] for rule in preset_rows()}
    rows = [f"| `{rule}` | {' and '.join(f'`{text}`' for text in each)} |" for rule, each in texts.items()]
    assert [row for row in rows if row not in TEXT] == []
