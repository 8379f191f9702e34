"""What a job costs, as its user, its biller and its verifier see it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.support.platform import ROOT, Platform, await_, job_document

pytestmark = pytest.mark.e2e

SUBSCRIBER = ROOT / "examples" / "billing-subscriber" / "subscriber.py"


def bill(platform: Platform, job: str) -> dict:
    return json.loads(platform.cli("usage", job, "-o", "json").stdout)


def is_complete(platform: Platform, job: str) -> bool:
    found = bill(platform, job)
    return bool(found["items"]) and found["accrued"] == {"replicaMs": 0, "amountMicros": 0}


def test_a_job_is_billed_verified_and_counted_by_the_subscriber(platform: Platform) -> None:
    job = platform.submit(job_document("costly", "sleep 1", replicas=2))
    platform.await_end(job)
    await_("the bill is complete", lambda: is_complete(platform, job))
    found = bill(platform, job)
    (line,) = (line for line in found["items"] if line["phase"] == "running")
    assert 1800 <= line["replicaMs"] <= 4000
    assert line["amountMicros"] == line["replicaMs"] * line["priceMicrosPerHour"] // 3_600_000 > 0

    assert "Cost" in platform.cli("describe", "costly").stdout
    assert "Total" in platform.cli("usage").stdout
    assert "verified" in platform.cli("usage", "verify", job).stderr
    assert "verified" in platform.cli("usage", "verify").stderr

    database = platform.home.parent / "billing.sqlite"
    access = platform.home / "config" / "billing.json"
    assert access.stat().st_mode & 0o777 == 0o600
    for option in ("--once", "--replay"):
        subprocess.run([sys.executable, SUBSCRIBER, "--access", access, "--database", database, option], check=True)
    with closing(sqlite3.connect(database)) as opened:
        ((counted,),) = opened.execute("SELECT SUM(amount_micros) FROM usage WHERE job = ?", (job,))
    assert counted == found["total"]["amountMicros"]


def test_a_platform_that_was_killed_bills_what_ran_while_it_was_away(own_platform: Platform) -> None:
    job = own_platform.submit(job_document("survivor", "sleep 3"))
    own_platform.await_state(job, "Running")
    own_platform.kill()
    own_platform.up()
    own_platform.await_end(job)
    await_("the bill is complete", lambda: is_complete(own_platform, job))
    (line,) = (line for line in bill(own_platform, job)["items"] if line["phase"] == "running")
    assert line["replicaMs"] >= 2500
    own_platform.cli("usage", "verify", job)
