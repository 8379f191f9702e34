"""The image as an engine builds it of the Containerfile, and the one-machine platform with what Compose gives it.

`TRAINMASTER_TEST_ENGINE` names the command of the engine (`docker`, `podman`), and `TRAINMASTER_TEST_BUILD` what its
`build` needs besides on this machine, such as a network or a file with the settings of pip. Without an engine the files
alone are checked (tests/unit/deploy/compose).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TAG = f"trainmaster-test:{os.getpid()}"
SERVICES = ("submitter", "scheduler", "watchdog", "diagnoser", "logs", "agent")

pytestmark = pytest.mark.timeout(1800)


def engine(*arguments: str, check: bool = True) -> str:
    """What the engine says, on both of its outputs."""
    command = [os.environ["TRAINMASTER_TEST_ENGINE"], *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 or not check, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if not os.environ.get("TRAINMASTER_TEST_ENGINE"):
        pytest.skip("TRAINMASTER_TEST_ENGINE names no container engine")
    more = shlex.split(os.environ.get("TRAINMASTER_TEST_BUILD", ""))
    engine("build", "--file", str(ROOT / "deploy/Containerfile"), "--tag", TAG, *more, str(ROOT))
    yield TAG
    engine("rmi", "--force", TAG)


def of_compose() -> list[str]:
    """Compose's file as options of `run`, but for the port and for limits that only some engines may raise."""
    text = (ROOT / "deploy/compose/compose.yaml").read_text()
    platform: dict[str, Any] = yaml.safe_load(text)["services"]["platform"]
    assert platform["read_only"]
    assert platform["init"]
    return [
        *("--read-only", "--init", "--hostname", platform["hostname"]),
        *(word for mount in platform["tmpfs"] for word in ("--tmpfs", mount)),
        *(word for capability in platform["cap_drop"] for word in ("--cap-drop", capability)),
        *(word for option in platform["security_opt"] for word in ("--security-opt", option)),
    ]


@pytest.fixture
def platform(image: str) -> Iterator[str]:
    name = TAG.replace(":", "-")
    engine("run", "--detach", "--name", name, *of_compose(), "--volume", f"{name}:/var/lib/trainmaster", image)
    yield name
    engine("rm", "--force", name)
    engine("volume", "rm", name)


def await_ready(name: str) -> None:
    probe = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())["services"]["platform"]["healthcheck"]
    until = time.monotonic() + 90
    while "Traceback" in (said := engine("exec", name, *probe["test"][1:], check=False)):
        assert time.monotonic() < until, said + engine("logs", name)
        time.sleep(0.5)


def test_the_image_has_what_it_needs_and_runs_as_a_user_with_a_private_home(image: str) -> None:
    look = "id --user; stat --format %a:%U $TRAINMASTER_HOME; pip check; which bwrap git nats-server trainmaster py-spy"
    assert engine("run", "--rm", image, "sh", "-c", look).splitlines() == [
        *("10001", "700:trainmaster", "No broken requirements found."),
        *("/usr/bin/bwrap", "/usr/bin/git"),
        *(f"/opt/trainmaster/bin/{name}" for name in ("nats-server", "trainmaster", "py-spy")),
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_starts_and_tells_a_setting_that_is_wrong(image: str, service: str) -> None:
    start = ("python", "-m", f"services.{service}")
    said = engine("run", "--rm", "--env", "TRAINMASTER_NATS_ULR=nats://nats", image, *start, check=False)
    assert "wrong settings: TRAINMASTER_NATS_ULR: there is no such variable; give TRAINMASTER_NATS_URL" in said


def test_the_platform_of_compose_becomes_ready_shuts_replicas_in_and_keeps_its_state(platform: str) -> None:
    await_ready(platform)
    assert "replicas are shut in by" in engine("exec", platform, "trainmaster", "doctor", check=False)
    password = engine("exec", platform, "cat", "/var/lib/trainmaster/admin-password")
    engine("restart", platform)
    await_ready(platform)
    assert engine("exec", platform, "cat", "/var/lib/trainmaster/admin-password") == password
