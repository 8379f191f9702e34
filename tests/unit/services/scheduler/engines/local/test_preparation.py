from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.scheduler.engines.local.gang_dir import GangDir, GangStore, record_of
from services.scheduler.engines.local.preparation import PlaceOnHost, describe_replica, places_on_host, prepare
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeDirectory, CodeInline, GangMount, GangStart
from tests.support.local_engine import gang_of

MOUNTS = (GangMount(Path("/data/team"), "/mnt/data"), GangMount(Path("/data/other"), "/mnt/data2"))


def directory_of(gang: GangStart, path: Path) -> GangDir:
    return GangStore(path).create(record_of(gang, master_port=1, boot_id="", created_at=""), gang.id)


def test_etc_has_the_host_s_names_and_the_gang_s(tmp_path: Path):
    gang = gang_of("a", "b", files={"hostfile": "x\n", "hosts/worker": "y\n"})
    gang_dir = directory_of(gang, tmp_path)

    prepare(gang_dir, gang, tmp_path / "home")
    prepare(gang_dir, gang, tmp_path / "home")

    hosts = (gang_dir.etc / "hosts").read_text()
    assert hosts.startswith(Path("/etc/hosts").read_text().rstrip("\n"))
    assert hosts.endswith(f"127.0.0.1 {gang.id}-worker-1.{gang.id} {gang.id}-worker-1\n")
    assert (gang_dir.etc / "trainmaster/hostfile").read_text() == "x\n"
    assert (gang_dir.etc / "trainmaster/hosts/worker").read_text() == "y\n"


def test_code_is_laid_once_for_the_gang(tmp_path: Path):
    gang = gang_of("a", code=CodeInline({"train.py": "x"}))
    gang_dir = directory_of(gang, tmp_path)

    prepare(gang_dir, gang, tmp_path / "home")

    assert (gang_dir.code / "train.py").read_text() == "x"


@pytest.mark.parametrize("name", ["../x", "/etc/x"])
def test_a_file_outside_of_its_place_is_refused(tmp_path: Path, name: str):
    gang = gang_of("a", files={name: ""})

    with pytest.raises(StartRefusedError, match="must be relative"):
        prepare(directory_of(gang, tmp_path), gang, tmp_path / "home")


@pytest.mark.parametrize(
    ("path", "sandboxed", "expected"),
    [
        ("/mnt/data/out/runs", True, "/data/team/out/runs"),
        ("/mnt/data", True, "/data/team"),
        ("/mnt/data2/runs/", True, "/data/other/runs"),
        ("/mnt/data/../data2/runs", True, "/data/other/runs"),
        ("/code/runs", True, "/gang/code/runs"),
        ("/elsewhere", True, None),
        ("/elsewhere", False, "/elsewhere"),
        (None, True, None),
    ],
)
def test_event_files_and_checkpoints_are_found_on_the_host(path: str | None, sandboxed: bool, expected: str | None):
    gang = gang_of("a", "b", mounts=MOUNTS, tensorboard_dir=path, checkpoint_dir=path)
    first, second = gang.replicas

    found = places_on_host(gang, first, Path("/gang/code"), sandboxed=sandboxed)
    assert {name: place and place.path for name, place in found.items()} == {
        "tensorboard": expected,
        "checkpoints": expected,
    }
    assert not any(places_on_host(gang, second, Path("/gang/code"), sandboxed=sandboxed).values())


def test_the_root_of_event_files_is_what_an_admin_allowed(tmp_path: Path):
    storage = tmp_path / "storage"
    (storage / "team").mkdir(parents=True)
    (storage / "link").symlink_to("team")
    (storage / "out").symlink_to("/etc")

    def found(source: Path) -> PlaceOnHost | None:
        gang = gang_of("a", mounts=(GangMount(source, "/mnt/data", root=storage),), tensorboard_dir="/mnt/data/runs")
        return places_on_host(gang, gang.replicas[0], Path("/gang/code"), sandboxed=True)["tensorboard"]

    assert found(storage / "link") == PlaceOnHost(str(storage), str(storage / "team/runs"))
    assert found(storage / "out") is None


def test_the_agent_is_told_what_to_ship_and_no_secret(tmp_path: Path):
    gang = gang_of("a", env={"TOKEN": "secret"})
    replica = directory_of(gang, tmp_path).replicas["worker", 0]
    replica.path.mkdir()

    places = {"tensorboard": PlaceOnHost("/data", "/data/runs"), "checkpoints": None}
    describe_replica(replica, gang, gang.replicas[0], "2026-01-01T00:00:00.000Z", places)

    assert json.loads(replica.ship.read_text()) == {
        "job": gang.job,
        "attempt": 1,
        "role": "worker",
        "index": 0,
        "node": "n-here",
        "owner": "u-me",
        "project": "default",
        "started_at": "2026-01-01T00:00:00.000Z",
        "log": "log",
        "tensorboard": "/data/runs",
        "tensorboard_root": "/data",
        "checkpoints": None,
        "checkpoints_root": None,
    }
    assert "secret" not in replica.identity.read_text() + replica.ship.read_text()


def test_a_code_directory_is_copied_and_no_link_leads_it_out_of_its_root_or_into_the_platform(tmp_path: Path):
    home, storage = tmp_path / "home", tmp_path / "storage"
    (home / "config").mkdir(parents=True)
    (home / "config/secrets.json").write_text("secret")
    (storage / "src").mkdir(parents=True)
    (storage / "src/train.py").write_text("x")
    (storage / "out").symlink_to(home / "config")

    good = gang_of("a", code=CodeDirectory(storage / "src", storage))
    gang_dir = directory_of(good, home / "gangs")
    prepare(gang_dir, good, home)
    assert (gang_dir.code / "train.py").read_text() == "x"

    for code in (CodeDirectory(storage / "out", storage), CodeDirectory(storage / "out"), CodeDirectory(tmp_path)):
        gang = gang_of("a", code=code)
        gang_dir = directory_of(gang, home / "gangs")
        with pytest.raises(StartRefusedError, match=r"leads to|platform's own state"):
            prepare(gang_dir, gang, home)
        assert not gang_dir.code.exists()
