"""docs/cli.md says what the command does; what can be compared is compared."""

from __future__ import annotations

import re
from pathlib import Path

from trainmaster.cli.main import COMMANDS, PLUGINS
from trainmaster.errors import ExitCode
from trainmaster.kinds import APPLICABLE, KINDS

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


def test_every_exit_code_is_explained() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)] == sorted(ExitCode)


def test_every_command_has_its_row() -> None:
    rows = " ".join(re.findall(r"^\| (`.*?) \| ", TEXT, re.MULTILINE))
    assert {name for name in (*COMMANDS, *PLUGINS) if not re.search(rf"`{name}\b", rows)} == set()


def test_every_kind_is_named() -> None:
    assert {kind.name for kind in APPLICABLE if kind.name not in TEXT} == set()
    assert {kind.plural for kind in KINDS if kind.plural not in TEXT} == set()
