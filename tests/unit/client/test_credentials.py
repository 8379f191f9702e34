from __future__ import annotations

import stat
from pathlib import Path

import pytest

from trainmaster.credentials import DEFAULT_URL, Login, config_path, current_login, save_login, stored_login
from trainmaster.errors import InputError, NotLoggedInError

LOGIN = Login("http://platform:8080", "ada", "token-1")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TRAINMASTER_CONFIG": str(tmp_path / "new" / "credentials.json")}


def test_a_saved_login_is_found_again(environ: dict[str, str]) -> None:
    save_login(environ, LOGIN)
    assert stored_login(environ) == current_login(environ) == LOGIN


def test_only_the_owner_may_read_it_even_where_the_file_was_open_before(environ: dict[str, str]) -> None:
    path = config_path(environ)
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(0o644)
    save_login(environ, LOGIN)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_else_is_left_in_the_folder(environ: dict[str, str]) -> None:
    path = save_login(environ, LOGIN)
    assert list(path.parent.iterdir()) == [path]


def test_the_environment_takes_precedence(environ: dict[str, str]) -> None:
    save_login(environ, LOGIN)
    environ |= {"TRAINMASTER_URL": "http://other:1/", "TRAINMASTER_TOKEN": "token-2"}
    assert current_login(environ) == Login("http://other:1", "ada", "token-2")


def test_a_stored_token_is_never_sent_to_another_address(environ: dict[str, str]) -> None:
    save_login(environ, LOGIN)
    environ["TRAINMASTER_URL"] = "http://elsewhere:8080"
    with pytest.raises(NotLoggedInError, match="not logged in at http://elsewhere:8080"):
        current_login(environ)


def test_without_a_login_the_error_says_how_to_get_one(environ: dict[str, str]) -> None:
    with pytest.raises(NotLoggedInError, match=f"trainmaster login -u USER -e {DEFAULT_URL}"):
        current_login(environ)


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", '{"url": "http://x"}', "\xff"])
def test_a_damaged_file_is_named(environ: dict[str, str], content: str) -> None:
    path = config_path(environ)
    path.parent.mkdir()
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match="damaged"):
        stored_login(environ)


def test_the_file_is_in_the_home_folder_where_nothing_is_said() -> None:
    assert config_path({}) == Path.home() / ".config" / "trainmaster" / "credentials.json"
