"""The start command under its waiting shell, in real shells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.objects.command import SUPERVISOR, command_line

NAMESPACES = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--as-pid-1")
WITHOUT_BASH = ("--ro-bind", "/dev/null", "/usr/bin/bash", "--ro-bind", "/dev/null", "/bin/bash")


@pytest.fixture
def bash() -> list[str]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed, so no shell can be process 1 here")
    return list(NAMESPACES)


@pytest.fixture(params=["bash", "sh alone"])
def shell(request, bash: list[str]) -> list[str]:
    return [*bash, *(WITHOUT_BASH if request.param == "sh alone" else ())]


def line_of(command: str) -> list[str]:
    """What Kubernetes makes of the pod's text."""
    return [part.replace("$$", "$") for part in command_line(command)]


def run(shell: list[str], command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*shell, *line_of(command)], capture_output=True, text=True, timeout=30, check=False)


def test_the_pod_says_everything_so_that_kubernetes_leaves_it_as_it_is():
    assert line_of("echo $RANK $(RANK)")[-2:] == [SUPERVISOR, "echo $RANK $(RANK)"]
    assert all("$" not in part.replace("$$", "") for part in command_line("echo $RANK"))


@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("true", 0), ("kill -9 $$", 137), ("no-such-command", 127)]
)
def test_the_exit_code_is_the_commands(shell, command, code):
    assert run(shell, command).returncode == code


@pytest.mark.parametrize(
    ("of_the_image", "found"),
    [("", "/etc/trainmaster/python"), ("/opt/own", "/opt/own:/etc/trainmaster/python")],
)
def test_training_code_imports_what_the_platform_lays_behind_what_the_image_has(
    shell, monkeypatch, of_the_image, found
):
    monkeypatch.setenv("PYTHONPATH", of_the_image)
    assert run(shell, 'echo "$PYTHONPATH"').stdout == f"{found}\n"


def test_a_command_may_use_what_bash_has(bash):
    assert run(bash, "[[ -n $BASH_VERSION ]] && a=(1 2) && echo ${#a[@]}").stdout == "2\n"


def test_no_signal_is_ignored_that_is_not_elsewhere(bash):
    (ignored,) = run(bash, "grep SigIgn /proc/self/status").stdout.split()[1:]
    assert int(ignored, 16) & (1 << signal.SIGINT - 1 | 1 << signal.SIGQUIT - 1 | 1 << signal.SIGTERM - 1) == 0


@pytest.mark.parametrize("command", ["exit 3", "kill -9 $$", "kill -SEGV $$"])
def test_nothing_is_said_beside_the_command(shell, command):
    ended = run(shell, command)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_what_the_command_says_of_errors_is_kept(shell):
    assert run(shell, "echo wrong >&2; exit 3").stderr == "wrong\n"


def test_everything_ends_with_the_command(shell):
    assert run(shell, "setsid sleep 1000 & sleep 0.05; exit 4").returncode == 4


def ended_by_term(shell: list[str], command: str, tmp_path: Path) -> tuple[int, str]:
    """The code after a TERM to process 1, sent once something has said `ready`, and what was said afterwards.

    A shell with a trap that has just forked may lose the signal, so that a program has to say it that has no trap.
    """
    info = tmp_path / "info"
    with info.open("w") as file:
        line = [shell[0], "--info-fd", str(file.fileno()), *shell[1:], *line_of(command)]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, pass_fds=[file.fileno()])
    assert process.stdout.readline() == "ready\n"
    pid = json.loads(info.read_text())["child-pid"]
    os.kill(pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    return process.returncode, said


def test_a_term_reaches_every_process_and_the_commands_own_code_counts(shell, tmp_path):
    command = "trap 'exit 7' TERM; setsid sh -c 'echo ready; exec sleep 1000' & wait; exit 9"
    assert ended_by_term(shell, command, tmp_path) == (7, "")


def test_after_a_term_other_processes_have_the_rest_of_the_grace(shell, tmp_path):
    saving = "trap 'sleep 0.3; echo saved; exit' TERM; sh -c 'echo ready; exec sleep 1000' & wait"
    assert ended_by_term(shell, f'setsid sh -c "{saving}" & sleep 1000', tmp_path) == (143, "saved\n")
