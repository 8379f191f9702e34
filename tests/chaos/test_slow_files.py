"""Files of the agent are slow while the flag is there, and of nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.storm import SLOW_FILES, SLOW_FLAG

pytestmark = pytest.mark.chaos

_COUNTED = """
import os, sys, time
waits = []
time.sleep = waits.append
with open(sys.argv[1], "rb") as file:
    print(os.pread(file.fileno(), 4, 0).decode(), len(waits))
"""


def read_with(home: Path, *arguments: str) -> str:
    """What was read, and how often reading it waited."""
    file = home / "file"
    file.write_text("text")
    return subprocess.run(
        [sys.executable, "-c", _COUNTED, str(file), *arguments],
        env={**os.environ, "PYTHONPATH": str(SLOW_FILES), "TRAINMASTER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_only_the_agents_are_slow_and_only_while_the_flag_is_there(tmp_path: Path) -> None:
    assert read_with(tmp_path, "services.agent") == "text 0"
    (tmp_path / SLOW_FLAG).touch()
    assert read_with(tmp_path, "services.agent") == "text 2"
    assert read_with(tmp_path) == "text 0"
