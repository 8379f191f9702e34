"""A secret through the whole platform: the replica has it, and no file, answer or log of the platform does."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.support.holders import holders
from tests.support.platform import Platform, await_, job_document

pytestmark = pytest.mark.e2e

VALUE = "hunter2-" + "q" * 30 + "-plaintext"


def test_a_secret_reaches_the_replica_and_nothing_else(platform: Platform) -> None:
    platform.apply(
        {
            "apiVersion": "trainmaster/v1",
            "kind": "Secret",
            "metadata": {"name": "hub-token"},
            "spec": {"value": VALUE},
        }
    )
    shown = platform.cli("get", "secrets", "-o", "json").stdout + platform.cli("get", "secret", "hub-token").stdout
    assert "hub-token" in shown
    command = 'printf %s "$TOKEN" | sha256sum; sleep 2'
    job = platform.submit(job_document("secretive", command, secrets={"TOKEN": "hub-token"}))
    platform.await_state(job, "Running")
    assert holders(platform.home, VALUE) == []
    platform.await_end(job)
    assert platform.log(job).decode().split()[0] == hashlib.sha256(VALUE.encode()).hexdigest()
    answers = [platform.cli(*words).stdout for words in (["events", job, "-o", "json"], ["describe", job])]
    assert VALUE not in shown + json.dumps(platform.job(job)) + "".join(answers)
    assert holders(platform.home, VALUE) == []


def test_a_secret_survives_the_platform_and_its_key_stays_outside_of_the_store(own_platform: Platform) -> None:
    platform = own_platform
    secret = {"apiVersion": "trainmaster/v1", "kind": "Secret", "metadata": {"name": "t"}, "spec": {"value": VALUE}}
    platform.apply(secret)
    job = platform.submit(job_document("later", "sleep 1; [ ${#TOKEN} = 48 ]", secrets={"TOKEN": "t"}))
    platform.kill()
    platform.up()
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    assert (platform.home / "config" / "secret-keys.json").stat().st_mode & 0o777 == 0o600
    key = next(iter(json.loads((platform.home / "config" / "secret-keys.json").read_text())["keys"].values()))
    assert holders(platform.home / "nats", key) == []
    await_("no gang directory is left", lambda: not list((platform.home / "gangs").glob("tj-*")), 30)
