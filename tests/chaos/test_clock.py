"""The machine's clock is set back an hour while jobs run: they end right, new ones run, and bills stay right.

The platform's process sees the clock through libfaketime, which reads the shift from a file at every call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(180)]

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
STEADY = "for i in $(seq 1 40); do echo line $i; sleep 0.1; done"


@pytest.fixture
def shift(tmp_path: Path) -> Path:
    """The file that says how far the platform's clock is off."""
    file = tmp_path / "shift"
    file.write_text("+0")
    return file


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    if not LIBRARIES:
        pytest.skip("libfaketime is missing; install it with: apt-get install libfaketime")
    platform = Platform(tmp_path / "home")
    yield platform
    platform.cli("down", "--home", str(platform.home), "--replicas", check=False)


def start(platform: Platform, shift: Path) -> None:
    """Start the platform, and it alone, with the shifted clock, and log in."""
    clock = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-m", "deploy.local", "--home", str(platform.home), "--port", str(platform.port)]
    platform.home.mkdir(exist_ok=True)
    with (platform.home / "platform.log").open("ab") as log:
        orphaned = ["/bin/sh", "-c", '"$@" &', "sh", *command]
        subprocess.run(
            orphaned, env=platform.environment | clock, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True
        )
    await_("the platform is up", lambda: platform.pid)
    log_in(platform)


def log_in(platform: Platform) -> None:
    password = (platform.home / "admin-password").read_text().strip()
    platform.cli("login", "-u", "admin", "-p", password, "-e", f"http://127.0.0.1:{platform.port}")


def test_a_clock_that_is_set_back_an_hour_loses_nothing(platform: Platform, shift: Path) -> None:
    start(platform, shift)
    before = platform.submit(job_document("before", STEADY))
    platform.await_state(before, "Running")
    shift.write_text("-3600")
    log_in(platform)

    after = platform.submit(job_document("after", STEADY, maxRunTime="30s"))
    created = datetime.fromisoformat(platform.job(after)["metadata"]["createdAt"])
    assert created < datetime.now(UTC) - timedelta(minutes=50)
    for job in (before, after):
        assert platform.await_end(job)["status"]["state"] == "Succeeded"
        assert platform.log(job).count(b"line") == 40

    platform.kill()
    start(platform, shift)
    listed = json.loads(platform.cli("get", "jobs", "-o", "json").stdout)["items"]
    assert {item["metadata"]["id"] for item in listed} == {before, after}
    await_("bills are right", lambda: platform.cli("usage", "verify", check=False).returncode == 0, 60)
