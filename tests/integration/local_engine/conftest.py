"""A home for the engine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.engines.local.engine import LocalSettings
from tests.support.local_engine import kill_runners, remove_memory_groups


@pytest.fixture
def home() -> Iterator[Path]:
    """A platform home that jobs could see, were it not hidden from them: not below /tmp, which is theirs alone."""
    path = Path(tempfile.mkdtemp(prefix=".tm-test-", dir=Path.home()))
    yield path
    kill_runners(path)
    remove_memory_groups(path)
    shutil.rmtree(path)


@pytest.fixture
def settings(home: Path) -> LocalSettings:
    return LocalSettings(home, path_variable=os.environ["PATH"], sweep_s=0.1)
