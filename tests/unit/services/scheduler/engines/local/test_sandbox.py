"""The plan of a sandbox's root over a host tree made for the test."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.scheduler.engines.local import sandbox
from services.scheduler.engines.local.host_tree import HostTree
from services.scheduler.engines.local.sandbox import HOST, PRIVATE, Bind, Sandbox, View
from services.scheduler.ports.engine import StartRefusedError

TREE = (
    *("usr/bin", "usr/lib", "etc/ssl/certs", "mnt/disk/set", "home/platform/state", "var/tmp", "tmp", "opt/venv/bin"),
    *("run/systemd/resolve", "dev/nvidia-caps", "dev/shm", "proc/sys", "sys"),
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostTree:
    root = tmp_path_factory.mktemp("host")
    for path in TREE:
        (root / path).mkdir(parents=True)
    for path in ("etc/passwd", "etc/hosts", "dev/nvidia0", "dev/sda", "dev/tty1", "swapfile"):
        (root / path).touch()
    (root / "bin").symlink_to("usr/bin")
    (root / "var/run").symlink_to("/run")
    (root / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    return HostTree(str(root))


def plan(host: HostTree, *mounts: str, hostfile_at: str | None = None, **parts: object) -> list[tuple[str, ...]]:
    """Options with their operands, in order."""
    binds = tuple(Bind(f"/mnt/disk/{number}", path) for number, path in enumerate(mounts))
    view = View("me", "/h/tmp", "/h/hosts", "/h/files", binds, hostfile_at=hostfile_at)
    arguments = Sandbox("bwrap", **parts).arguments(view, host)  # type: ignore[arg-type]
    starts = [index for index, argument in enumerate(arguments) if argument.startswith("--")]
    return [tuple(arguments[start:end]) for start, end in itertools.pairwise([*starts, len(arguments)])]


def test_top_level_entries_come_back_read_only_where_they_are(host: HostTree):
    options = plan(host)

    assert ("--ro-bind", "/usr", "/usr") in options
    assert ("--symlink", "usr/bin", "/bin") in options
    assert ("--ro-bind", "/swapfile", "/swapfile") in options
    assert not [each for each in options if each[0] == "--bind" and each[1] != "/h/tmp"]
    assert not [each for each in options if each[0] == "--ro-bind" and each[2] in PRIVATE]


def test_etc_is_made_anew_with_links_to_the_host_s(host: HostTree):
    options = plan(host)

    assert ("--ro-bind", "/etc", "/.host/etc") in options
    assert ("--symlink", "/.host/etc/passwd", "/etc/passwd") in options
    assert ("--symlink", "../run/systemd/resolve/stub-resolv.conf", "/etc/resolv.conf") in options
    assert ("--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve") in options
    assert ("--ro-bind", "/h/hosts", "/etc/hosts") in options
    assert not [each for each in options if each[0] == "--symlink" and each[2] == "/etc/hosts"]


def test_a_mount_point_that_exists_needs_no_new_parents(host: HostTree):
    options = plan(host, "/mnt/disk/set")

    assert ("--ro-bind", "/mnt", "/mnt") in options
    assert options.index(("--bind", "/mnt/disk/0", "/mnt/disk/set")) > options.index(("--ro-bind", "/mnt", "/mnt"))


def test_only_the_parents_of_a_missing_mount_point_are_made_anew(host: HostTree):
    options = plan(host, "/mnt/new/deep", "/mnt/disk/set")

    assert ("--ro-bind", "/mnt", "/.host/mnt") in options
    assert ("--dir", "/mnt") in options
    assert ("--dir", "/mnt/disk") in options  # the other mount lies in it, and a bind cannot pass through a link
    assert ("--ro-bind", "/opt", "/opt") in options


def test_mount_points_behind_links_are_where_the_links_lead(host: HostTree):
    assert ("--bind", "/mnt/disk/0", "/run/socket") in plan(host, "/var/run/socket")


def test_accelerators_are_the_only_devices_of_the_host(host: HostTree):
    devices = [each for each in plan(host) if each[0] == "--dev-bind"]

    assert devices == [
        ("--dev-bind", "/dev/nvidia-caps", "/dev/nvidia-caps"),
        ("--dev-bind", "/dev/nvidia0", "/dev/nvidia0"),
    ]


def test_hidden_places_are_covered_wherever_the_host_can_be_seen(host: HostTree):
    hidden = ("/home/platform", "/absent")

    assert ("--tmpfs", "/home/platform") in plan(host, hidden=hidden)
    assert ("--tmpfs", "/.host/home/platform") in plan(host, "/home/new", hidden=hidden)
    assert ("--tmpfs", "/absent") not in plan(host, hidden=hidden)


def test_a_hidden_file_is_covered_by_nothing(host: HostTree):
    assert ("--ro-bind", "/dev/null", "/swapfile") in plan(host, hidden=("/swapfile",))


def test_names_in_a_hidden_folder_do_not_show_either(host: HostTree):
    options = plan(host, "/home/platform/new", hidden=("/home/platform",))

    assert not [each for each in options if "state" in each[-1]]
    assert ("--tmpfs", "/.host/home/platform") in options


def test_a_hidden_folder_inside_of_a_mount_is_covered_there(host: HostTree):
    view = View("me", "/h/tmp", "/h/hosts", "/h/files", (Bind("/home", "/mnt/all"),))

    arguments = Sandbox("bwrap", hidden=("/home/platform",)).arguments(view, host)

    assert arguments[-2:] == ["--tmpfs", "/mnt/all/platform"]


@pytest.mark.parametrize(
    ("path", "mounts", "laid"),
    [
        ("/job/hostfile", (), True),
        ("/job/hostfile", ("/job/data",), True),
        ("/job/hostfile", ("/job",), False),
        ("/opt/hostfile", (), False),
    ],
)
def test_a_second_hostfile_is_laid_where_nothing_else_is(
    host: HostTree, path: str, mounts: tuple[str, ...], laid: bool
):
    link = ("--symlink", "/etc/trainmaster/hostfile", path)
    assert (link in plan(host, *mounts, hostfile_at=path)) is laid


def test_what_is_needed_comes_back_into_hidden_places(host: HostTree):
    options = plan(
        host, needed=("/tmp/clone/venv", "/home/platform/python", "/usr/bin/python"), hidden=("/home/platform",)
    )

    cover = options.index(("--tmpfs", "/home/platform"))
    assert options.index(("--ro-bind", "/home/platform/python", "/home/platform/python")) > cover
    assert options.index(("--ro-bind", "/tmp/clone/venv", "/tmp/clone/venv")) > options.index(
        ("--bind", "/h/tmp", "/tmp")
    )
    assert not [each for each in options if each[-1] == "/usr/bin/python"]


def test_root_gives_up_its_capabilities(host: HostTree):
    assert ("--cap-drop", "ALL") in plan(host, drop_capabilities=True)
    assert ("--cap-drop", "ALL") not in plan(host)


def test_more_than_bubblewrap_takes_is_refused(host: HostTree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "ARGUMENTS_MAX", 50)

    with pytest.raises(StartRefusedError, match="/mnt/new lie in folders with so many entries"):
        plan(host, "/mnt/new")


@given(
    mounts=st.lists(
        st.lists(st.sampled_from(["mnt", "disk", "new", "home", "platform", "opt"]), min_size=1, max_size=4).map(
            lambda parts: "/" + "/".join(parts)
        ),
        max_size=5,
    ),
    hidden=st.sampled_from([(), ("/home/platform",), ("/mnt/disk",)]),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_is_made_twice_and_no_mount_goes_through_a_link(
    host: HostTree, mounts: list[str], hidden: tuple[str, ...]
):
    try:
        options = plan(host, *mounts, hidden=hidden)
    except StartRefusedError:
        return  # one lies in another
    links = {each[2] for each in options if each[0] == "--symlink"}
    made = [each[-1] for each in options if each[0] in {"--symlink", "--dir"}]
    mounted = [each[-1] for each in options if each[0] in {"--bind", "--ro-bind", "--tmpfs"}]

    assert len(made) == len(set(made))
    assert not [path for path in mounted for link in links if path == link or path.startswith(link + "/")]
    assert {f"/{'/'.join(path.strip('/').split('/'))}" for path in mounts} <= set(mounted)
    assert HOST not in mounted
