"""Home, disk, port, clock, limits."""

from __future__ import annotations

import os
import resource
import socket
import time
from pathlib import Path

import pytest

from deploy.local.doctor import system
from deploy.local.doctor.finding import Verdict
from deploy.local.home import Home, RunningPlatform

GIB = 1 << 30


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir(mode=0o700)
    return Home(tmp_path / "home")


class TestHome:
    def test_one_that_is_not_made_yet_is_well_and_is_not_made(self, tmp_path: Path):
        assert system.home(Home(tmp_path / "a" / "b")).verdict is Verdict.OK
        assert not (tmp_path / "a").exists()

    def test_one_that_others_can_read_is_closed_by_chmod(self, home: Home):
        home.root.chmod(0o755)
        found = system.home(home)
        assert (found.verdict, found.mend) == (Verdict.WARN, f"chmod 700 {home.root}")

    def test_one_that_cannot_be_written_fails(self, home: Home, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
        assert system.home(home).verdict is Verdict.FAIL

    def test_one_on_a_network_file_system_is_a_warning(self, home: Home, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(system, "file_system", lambda _path: "nfs4")
        assert "nfs4" in system.home(home).message

    def test_the_nearest_mount_point_decides_about_the_file_system(self, tmp_path: Path):
        mounts = tmp_path / "mounts"
        mounts.write_text(
            "a / ext4 rw 0 0\nb /data nfs4 rw 0 0\nc /data/fast\\040disk xfs rw 0 0\nd /dat tmpfs rw 0 0\n"
        )
        assert system.file_system(Path("/data/x"), mounts) == "nfs4"
        assert system.file_system(Path("/data/fast disk/x"), mounts) == "xfs"
        assert system.file_system(Path("/database"), mounts) == "ext4"


@pytest.mark.parametrize(
    ("free_bytes", "inodes", "verdict"),
    [
        (GIB // 64, 10**6, Verdict.FAIL),
        (5 * GIB, 10**6, Verdict.WARN),
        (50 * GIB, 10, Verdict.WARN),
        (50 * GIB, 10**6, Verdict.OK),
    ],
)
def test_disk_space_and_inodes(home: Home, free_bytes: int, inodes: int, verdict: Verdict):
    assert system.disk(home, free_bytes, inodes).verdict is verdict


class TestPort:
    def test_a_port_that_is_taken_fails_with_another(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            number = taken.getsockname()[1]
            found = system.port(number, None)
        assert (found.verdict, found.mend) == (Verdict.FAIL, f"trainmaster up --port {number + 1}")
        assert system.port(number, None).verdict is Verdict.OK

    def test_a_port_that_the_platform_itself_has_is_well(self):
        running = RunningPlatform(pid=1, url="http://127.0.0.1:8080", nats_url="", nodes=1, started="")
        assert system.port(8080, running).verdict is Verdict.OK


class TestClock:
    def test_one_of_the_past_fails(self, home: Home):
        assert system.clock(home, 0.0, synchronized=True).verdict is Verdict.FAIL

    def test_one_that_was_set_back_is_seen_by_the_times_of_files(self, home: Home):
        home.log.touch()
        os.utime(home.log, (time.time() + 3600, time.time() + 3600))
        found = system.clock(home, synchronized=True)
        assert found.verdict is Verdict.WARN
        assert "set back" in found.message

    def test_one_that_nothing_keeps_right_is_a_warning(self, home: Home):
        found = system.clock(home, synchronized=False)
        assert (found.verdict, found.mend) == (Verdict.WARN, "timedatectl set-ntp true")
        assert system.clock(home, synchronized=True).verdict is Verdict.OK

    def test_the_kernel_can_be_asked(self):
        assert system.is_synchronized() in (True, False)


@pytest.mark.parametrize(
    ("limits", "verdict", "mend"),
    [
        ((1024, 4096), Verdict.WARN, "ulimit -n 4096"),
        ((1024, resource.RLIM_INFINITY), Verdict.WARN, "ulimit -n 65536"),
        ((1024, 1024), Verdict.WARN, "raise nofile in limits.conf"),
        ((8192, 8192), Verdict.OK, ""),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), Verdict.OK, ""),
    ],
)
def test_limits_on_open_files(limits: tuple[int, int], verdict: Verdict, mend: str):
    found = system.open_files(limits)
    assert (found.verdict, found.mend) == (verdict, mend)


def test_few_inotify_watches_are_a_warning_with_the_setting(tmp_path: Path):
    (tmp_path / "max_user_instances").write_text("8\n")
    (tmp_path / "max_user_watches").write_text("100000\n")
    assert system.inotify(tmp_path).mend == "sysctl -w fs.inotify.max_user_instances=512"
    (tmp_path / "max_user_instances").write_text("128\n")
    assert system.inotify(tmp_path).verdict is Verdict.OK
