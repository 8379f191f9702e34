"""What `up` refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from deploy.local.commands import up


def test_more_leaves_than_nodes_are_refused_before_the_home_is_made(tmp_path: Path):
    said = CliRunner().invoke(up, ["--home", str(tmp_path / "home"), "--nodes", "2", "--leaves", "3"])
    assert said.exit_code == 2
    assert "3 leaves are more than the 2 nodes that stand under them" in said.output
    assert not (tmp_path / "home").exists()
