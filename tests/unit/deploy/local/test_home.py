"""The home directory: what keeps a platform from using it is one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.home import MIN_FREE_BYTES, NATS_USERS, Home, HomeError, write_private


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_secrets_are_made_once_and_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    made = home.prepare()
    assert home.prepare() == made
    assert home.root.stat().st_mode & 0o777 == 0o700
    for path in (home.secrets, home.signing_key, home.admin_password):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_named_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(1 << 30, 1 << 30, MIN_FREE_BYTES - 1))
    with pytest.raises(HomeError, match="has 31 MiB free, and the platform needs at least 32 MiB"):
        Home(tmp_path / "home").prepare()


def test_damaged_secrets_are_never_replaced_silently(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.secrets.write_text("{")
    with pytest.raises(HomeError, match="is damaged; restore it"):
        home.prepare()
    assert home.secrets.read_text() == "{"


def test_of_two_that_make_a_file_at_once_the_first_decides(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    write_private(path, "first", replace=False)
    write_private(path, "second", replace=False)
    assert path.read_text() == "first"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_second_platform_is_told_that_the_home_is_taken(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    with home.hold(), pytest.raises(HomeError, match="a platform already runs in"), Home(home.root).hold():
        pass
    assert not home.is_held()


def test_a_home_of_an_earlier_version_has_passwords_for_the_users_that_it_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    made = home.prepare()
    earlier = made.model_dump()
    del earlier["nats_passwords"]["billing"]
    home.secrets.write_text(json.dumps(earlier))
    completed = home.prepare()
    assert set(completed.nats_passwords) == set(NATS_USERS)
    assert len(completed.nats_passwords["billing"]) == 64
    assert {**completed.nats_passwords, "billing": ""} == {**made.nats_passwords, "billing": ""}
    assert home.prepare() == completed
