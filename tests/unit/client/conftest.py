"""A scripted platform, and the environment of a user who is logged in to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fake_platform import FakePlatform, fake_platform


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    with fake_platform() as running:
        yield running


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test may see the login of whoever runs it."""
    for name in ("TRAINMASTER_URL", "TRAINMASTER_TOKEN", "TRAINMASTER_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINMASTER_CONFIG", str(tmp_path / "config" / "credentials.json"))


@pytest.fixture
def logged_in(monkeypatch: pytest.MonkeyPatch, platform: FakePlatform) -> FakePlatform:
    monkeypatch.setenv("TRAINMASTER_URL", platform.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", "token-1")
    return platform


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file
