from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from services.scheduler.engines.local.mounts import MountOpener
from services.scheduler.engines.local.sandbox import Bind
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangMount


def opened(mount: GangMount, home: Path, *, as_descriptors: bool = False) -> Bind:
    with ExitStack() as stack:
        return MountOpener(home, stack, as_descriptors=as_descriptors).open(mount)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "storage/team").mkdir(parents=True)
    return tmp_path / "storage"


def test_without_descriptors_the_resolved_path_is_mounted(storage: Path, tmp_path: Path):
    (storage / "link").symlink_to("team")

    bind = opened(GangMount(storage / "link", "/mnt/x", read_only=True, root=storage), tmp_path / "home")

    assert bind == Bind(str(storage / "team"), "/mnt/x", read_only=True)


def test_only_what_the_platform_made_for_the_gang_lies_in_its_home(storage: Path, tmp_path: Path):
    home = tmp_path / "storage"
    assert opened(GangMount(storage / "team", "/mnt/x", made=True), home).source == str(storage / "team")
    with pytest.raises(StartRefusedError, match="platform's own state"):
        opened(GangMount(storage / "team", "/mnt/x"), home)


def test_a_descriptor_stays_with_what_was_checked(storage: Path, tmp_path: Path):
    with ExitStack() as stack:
        opener = MountOpener(tmp_path / "home", stack, as_descriptors=True)
        bind = opener.open(GangMount(storage / "team", "/mnt/x", root=storage))
        (storage / "team").rmdir()
        (storage / "team").symlink_to("/etc")

        assert isinstance(bind.source, int)
        assert os.fstat(bind.source).st_ino != Path("/etc").stat().st_ino
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(bind.source)


def test_only_a_writable_mount_below_an_allowed_root_makes_its_folder(storage: Path, tmp_path: Path):
    opened(GangMount(storage / "new/deep", "/mnt/x", root=storage), tmp_path / "home")
    refused = [
        GangMount(storage / "absent", "/mnt/x", read_only=True, root=storage),
        GangMount(storage / "absent", "/mnt/x"),
        GangMount(tmp_path / "absent", "/mnt/x", root=storage),
    ]
    for mount in refused:
        with pytest.raises(StartRefusedError, match="cannot be used: No such file"):
            opened(mount, tmp_path / "home")

    assert {path.name for path in storage.iterdir()} == {"team", "new"}
    assert not (tmp_path / "absent").exists()


def test_neither_links_nor_dots_lead_out_of_the_root_or_into_the_platform(storage: Path, tmp_path: Path):
    (tmp_path / "home/gangs").mkdir(parents=True)
    (storage / "out").symlink_to(tmp_path / "home")

    for source in (storage / "out/gangs", storage / "../home"):
        with pytest.raises(StartRefusedError, match=r"leads to .*/home.*, out of "):
            opened(GangMount(source, "/mnt/x", root=storage), tmp_path / "home")
        with pytest.raises(StartRefusedError, match="would show the platform's own state"):
            opened(GangMount(source, "/mnt/x"), tmp_path / "home")


def test_a_link_that_leads_to_itself_is_refused(storage: Path, tmp_path: Path):
    (storage / "loop").symlink_to("loop")

    for path in (storage / "loop", storage / "loop/below"):
        with pytest.raises(StartRefusedError, match="Too many levels of symbolic links"):
            opened(GangMount(path, "/mnt/x", root=storage), tmp_path / "home")
