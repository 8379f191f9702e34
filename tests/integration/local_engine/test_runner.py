"""The runner by itself: its file protocol, as its docstring has it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.engines.local import runner

RUNNER = Path(runner.__file__)


class Desk:
    """Files for one runner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        for name in ("control", "bell"):
            os.mkfifo(path / name)
        self.fds = {name: self._open(name, os.O_RDWR | os.O_NONBLOCK) for name in ("control", "bell")}
        self.fds |= {name: self._open(name, os.O_WRONLY) for name in ("started", "exit", "group")}
        self.fds |= {name: self._open(name, os.O_RDONLY) for name in ("stop", "order", "events")}

    def order(self, command: str, directory: str = "/") -> None:
        fields = [directory, "4096", "3", "/bin/sh", "-c", command, "NAME=two words = one"]
        (self.path / "order").write_bytes(b"".join(field.encode() + b"\0" for field in fields))

    def start(self) -> subprocess.Popen[bytes]:
        with (self.path / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(RUNNER), *(f"{name}={fd}" for name, fd in self.fds.items())],
                stdin=self.lock, stdout=log, stderr=log, pass_fds=tuple(self.fds.values()), env={},
            )  # fmt: skip

    def run(self) -> dict[str, object]:
        assert self.start().wait(20) == 0
        return self.told("exit")

    def told(self, name: str) -> dict[str, object]:
        return json.loads((self.path / name).read_text())

    def is_locked(self) -> bool:
        with (self.path / "lock").open() as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def log(self) -> str:
        return (self.path / "log").read_text()

    def _open(self, name: str, flags: int) -> int:
        return os.open(self.path / name, flags | os.O_CREAT)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    for fd in (made.lock, *made.fds.values()):
        os.close(fd)


def test_the_end_is_the_raw_status_and_a_free_lock(desk: Desk):
    desk.order('echo "$NAME"; exit 137')

    told = desk.run()

    assert (told["wait_status"], told["stopped_by_us"], told["oom"]) == (137 << 8, False, "none")
    assert str(told["ended_at"]) >= str(desk.told("started")["started_at"])
    assert not desk.is_locked()
    assert desk.log() == "two words = one\n"
    assert os.read(desk.fds["bell"], 10) == b"!!"


def test_a_stop_that_was_asked_for_before_the_start_runs_nothing(desk: Desk):
    desk.order("echo ran")
    (desk.path / "stop").write_text('{"grace_s": 5}')

    told = desk.run()

    assert (told["wait_status"], told["stopped_by_us"]) == (None, True)
    assert (desk.path / "started").read_text() == ""
    assert desk.log() == ""


def test_a_poke_without_a_stop_changes_nothing(desk: Desk):
    desk.order("sleep 0.1; exit 2")
    os.write(desk.fds["control"], b"!")

    assert desk.run()["wait_status"] == 2 << 8


def test_a_kill_that_the_memory_group_counted_is_certainly_one_of_memory(desk: Desk):
    desk.order("kill -9 $$")
    (desk.path / "events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n")

    told = desk.run()

    assert (told["wait_status"], told["oom"]) == (9, "certain")
    assert (desk.path / "group").read_text() == "0"


def test_a_missing_directory_is_told_in_the_log(desk: Desk):
    desk.order("true", directory="/nowhere")

    assert desk.run()["wait_status"] == runner.EXIT_NOT_EXECUTABLE << 8
    assert "cannot run the command in /nowhere" in desk.log()


def test_orphans_of_orphans_end_with_the_command(desk: Desk):
    desk.order("(setsid sh -c '(setsid sleep 1000 &) & sleep 1000' &); sleep 0.1; pgrep -c sleep; exit 1")

    assert desk.run()["wait_status"] == 1 << 8
    log = str(desk.path / "log")
    assert not [each for each in Path("/proc").glob("[0-9]*/fd/1") if os.path.lexists(each) and _leads_to(each) == log]


def _leads_to(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
