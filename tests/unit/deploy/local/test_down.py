"""`down` returns when the platform's process is gone, not a moment before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.local.commands import down
from deploy.local.home import Home, RunningPlatform

# Holds the lock, lets it go at SIGTERM, and then still needs something before it ends.
PLATFORM = """
import fcntl, os, signal, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
signal.signal(signal.SIGTERM, lambda *_: (os.close(lock), print("let go", flush=True)))
print("holds it", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    home = Home(tmp_path)
    command = [sys.executable, "-c", PLATFORM, str(home.lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds it\n"
        home.announce(RunningPlatform(pid=process.pid, url="", nats_url="", nodes=1, started=""))
        yield process
        process.kill()


def test_the_process_is_waited_for_and_not_only_its_lock(tmp_path: Path, platform: subprocess.Popen[str]) -> None:
    results = []
    stopping = threading.Thread(
        target=lambda: results.append(CliRunner().invoke(down, ["--home", str(tmp_path)])), daemon=True
    )
    stopping.start()
    assert platform.stdout is not None
    assert platform.stdin is not None
    assert platform.stdout.readline() == "let go\n"
    assert stopping.is_alive()
    platform.stdin.close()
    stopping.join()
    assert results[0].output == "platform stopped\n"
    assert os.waitid(os.P_PID, platform.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def test_where_nothing_runs_that_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(down, ["--home", str(tmp_path)])
    assert result.exit_code == 1
    assert "no platform runs in" in result.output
