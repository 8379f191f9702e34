"""The home's secrets: made once, and completed where a new version has more users."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.local.home import NATS_USERS, Home


def test_every_nats_user_has_a_password_that_stays(tmp_path: Path):
    home = Home(tmp_path / "home")
    made = home.prepare()
    assert set(made.nats_passwords) == set(NATS_USERS)
    assert home.prepare() == made
    assert home.secrets.stat().st_mode & 0o777 == 0o600


def test_a_home_of_an_earlier_version_gets_passwords_for_the_users_that_it_lacks(tmp_path: Path):
    home = Home(tmp_path / "home")
    made = home.prepare()
    earlier = made.model_dump()
    del earlier["nats_passwords"]["billing"]
    home.secrets.write_text(json.dumps(earlier))
    completed = home.prepare()
    assert set(completed.nats_passwords) == set(NATS_USERS)
    assert {**completed.nats_passwords, "billing": ""} == {**made.nats_passwords, "billing": ""}
    assert home.prepare() == completed
