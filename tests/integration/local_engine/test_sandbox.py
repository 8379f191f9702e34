"""What a replica in a sandbox sees and can do; each test runs a command that tries."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from services.scheduler.engines.local.engine import LocalSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeInline, GangMount
from shared.events import ReplicaExit
from tests.support.local_engine import Bench, appears, bench, gang_of, log_of, processes_of, replica_dir

NEVER = "never-started"


@pytest.fixture
async def desk(settings: LocalSettings) -> AsyncIterator[Bench]:
    async with bench(settings) as made:
        assert made.engine.no_sandbox_because == ""
        yield made


@pytest.fixture
def storage(home: Path) -> Iterator[Path]:
    """A directory outside of the platform's home, as an admin would allow it."""
    path = home.with_name(home.name + "-storage")
    path.mkdir()
    yield path
    shutil.rmtree(path)


async def output(desk: Bench, home: Path, command: str, **parts: object) -> str:
    gang = gang_of(command, **parts)
    [end] = await desk.run(gang)
    assert end.code == 0, (end, log_of(home, gang))
    return log_of(home, gang)


async def test_mounts_at_paths_that_the_host_lacks_leave_nothing_on_it(desk: Bench, home: Path, storage: Path):
    paths = ["/mnt/tm-absent/a/b", "/tm-absent", "/opt/tm-absent", "/root/tm-absent/deep", "/var/lib/tm-absent/x"]
    mounts = tuple(GangMount(storage / str(number), path) for number, path in enumerate(paths))
    for mount in mounts:
        mount.source.mkdir()

    await output(desk, home, " && ".join(f"echo hello > {path}/file" for path in paths), mounts=mounts)

    assert all((mount.source / "file").read_text() == "hello\n" for mount in mounts)
    assert not [
        place
        for path in paths
        for place in (Path(path), *Path(path).parents)
        if "tm-absent" in place.parts and place.exists()
    ]


async def test_beside_a_mount_the_host_is_as_it_is(desk: Bench, home: Path, storage: Path):
    mounts = (
        GangMount(storage, "/usr/local/tm-absent"),
        GangMount(storage, "/etc/ssl/tm-absent"),
        GangMount(storage, "/var/tm-absent"),
    )
    with pytest.raises(StartRefusedError, match="nothing can be mounted in /usr"):
        await desk.engine.start(gang_of("true", mounts=mounts))

    command = (
        "ls /etc/ssl /var; getent passwd root; date; head -c1 /etc/ssl/certs/* | wc -c; readlink -e /etc/os-release"
    )
    there = await output(desk, home, command, mounts=mounts[1:])

    listed = there.split()
    assert names("/etc/ssl") | names("/var") | {"tm-absent"} <= set(listed)
    assert "root:x:0:0" in there


async def test_a_read_only_mount_cannot_be_written(desk: Bench, home: Path, storage: Path):
    (storage / "data").write_text("kept")
    mounts = (GangMount(storage, "/mnt/set", read_only=True),)

    said = await output(desk, home, "cat /mnt/set/data; ! touch /mnt/set/new; ! rm /mnt/set/data", mounts=mounts)

    assert said.startswith("kept")
    assert names(storage) == {"data"}


async def test_two_hundred_mounts_start(desk: Bench, home: Path, storage: Path):
    mounts = []
    for number in range(200):
        (storage / f"{number}").mkdir()
        (storage / f"{number}" / "n").write_text(f"{number}\n")
        mounts.append(GangMount(storage / f"{number}", f"/mnt/many/{number}", read_only=number % 2 == 0))

    said = await output(desk, home, "cat /mnt/many/*/n | sort -n | uniq | wc -l", mounts=tuple(mounts))

    assert said == "200\n"


async def test_a_missing_folder_of_a_storage_is_made(desk: Bench, home: Path, storage: Path):
    mount = GangMount(storage / "new/folder", "/mnt/data", root=storage)

    await output(desk, home, "echo hello > /mnt/data/file", mounts=(mount,))

    assert (storage / "new/folder/file").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        ("absent", "/mnt/data", "/mnt/data: .*absent cannot be used: No such file"),
        ("out", "/mnt/data", "/mnt/data: .*/out leads to /etc, out of "),
        ("out/new", "/mnt/data", "cannot be used: No such file"),
        ("platform", "/mnt/data", "would show the platform's own state"),
        ("fine", "/proc/x", "nothing can be mounted in /proc"),
        ("fine", "/dev/shm/x", "nothing can be mounted in /dev"),
        ("fine", "/", "nothing can be mounted in /"),
        ("fine", "/root", "would hide .* which the replica needs"),
        ("fine", "/etc/passwd/x", "/etc/passwd is no folder"),
    ],
)
async def test_a_mount_that_cannot_be_had_is_refused(
    desk: Bench, home: Path, storage: Path, source: str, path: str, message: str
):
    (storage / "fine").mkdir()
    (storage / "out").symlink_to("/etc")
    (storage / "platform").symlink_to(home / "gangs")
    root = None if source == "platform" else storage
    gang = gang_of("true", mounts=(GangMount(storage / source, path, read_only=source == "absent", root=root),))

    with pytest.raises(StartRefusedError, match=message):
        await desk.engine.start(gang)
    await desk.engine.stop(gang.id, 0)

    assert (await desk.exits(gang))[0].cause == NEVER
    assert not (replica_dir(home, gang) / "ship.json").exists()


async def test_a_mount_inside_another_is_refused(desk: Bench, storage: Path):
    mounts = (GangMount(storage, "/mnt/a"), GangMount(storage, "/mnt/a/b"))

    with pytest.raises(StartRefusedError, match="/mnt/a/b: lies in the mount at /mnt/a"):
        await desk.engine.start(gang_of("true", mounts=mounts))


async def test_a_start_that_bubblewrap_refuses_ends_the_replica_with_its_words(desk: Bench):
    gang = gang_of("true", job="tj-" + "x" * 80)  # no host has so long a name

    [end] = await desk.run(gang)

    assert end.cause == NEVER
    assert "bwrap: " in end.message


async def test_the_host_cannot_be_changed(desk: Bench, home: Path):
    created = (
        "for path in /usr /var /root /sys /etc/ssl; do touch $path/x 2>/dev/null && echo $path; done; mknod /x b 8 0"
    )
    controls = "find /proc/sys /proc/irq /proc/bus /proc/sysrq-trigger /proc/mtrr /sys /usr/bin -writable ! -type l"

    said = await output(desk, home, f"({created}; {controls}) 2>/dev/null; true")

    assert said == ""


async def test_the_platform_s_state_is_out_of_sight(settings: LocalSettings, home: Path, storage: Path):
    (home / "secret").write_text("token")
    (storage / "other-team").mkdir()
    (storage / "other-team" / "file").write_text("theirs")
    (storage / "team").mkdir()
    umount = f"unshare -Urm sh -c 'umount {home}; umount -l /.host{home}; cat {home}/secret /.host{home}/secret'"
    tries = f"ls -A {home} {storage}; cat /.host{home}/secret /proc/1/root{home}/secret; {umount}; ls /mnt/team; true"
    async with bench(replace(settings, hidden=(storage,))) as desk:
        mounts = (GangMount(storage / "team", "/mnt/team"), GangMount(storage / "team", "/root/tm-absent"))
        said = await output(desk, home, f"({tries}) 2>/dev/null", mounts=mounts)

    assert "token" not in said
    assert "theirs" not in said
    assert "gangs" not in said


async def test_the_home_is_covered_inside_of_a_mount_that_has_it(desk: Bench, home: Path):
    said = await output(
        desk, home, f"ls -A /mnt/all/{home.name}; ls -A /mnt/all | wc -l", mounts=(GangMount(home.parent, "/mnt/all"),)
    )

    assert int(said) > 1


async def test_only_its_own_processes_are_in_proc(desk: Bench, home: Path):
    said = await output(desk, home, "ls -d /proc/[0-9]* | wc -l; readlink /proc/1/exe /proc/1/cwd; true")

    assert int(said.splitlines()[0]) <= 4


async def test_the_runner_cannot_be_looked_into(desk: Bench, home: Path):
    attach = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.ptrace(16, 1, 0, 0), ctypes.get_errno())"
    look = "cat /proc/1/environ /proc/1/mem; ls -l /proc/1/fd/ | grep -c gangs"
    tries = f"python3 -c '{attach}'; {look}; kill -9 1; kill -TERM 1"

    said = await output(desk, home, f"({tries}) 2>/dev/null; true")

    assert said == "-1 1\n0\n"


async def test_neither_runner_nor_bubblewrap_keep_a_way_out(desk: Bench, home: Path, storage: Path):
    gang = gang_of("echo ready; sleep 1000", mounts=(GangMount(storage, "/mnt/data"),))
    await desk.engine.start(gang)
    await appears(replica_dir(home, gang) / "log", "ready")
    processes = processes_of(gang)
    open_files = [link.readlink() for pid in processes for link in Path(f"/proc/{pid}/fd").iterdir()]
    await desk.engine.stop(gang.id, 0)
    await desk.exits(gang)

    assert len(processes) >= 3
    assert not [path for path in open_files if path.is_dir()]


async def test_a_launcher_finds_the_hostfile_where_it_looks_by_itself(desk: Bench, home: Path):
    gang = gang_of("cat /job/hostfile", files={"hostfile": "a slots=1\n"}, hostfile_at="/job/hostfile")

    await desk.run(gang)

    assert log_of(home, gang) == "a slots=1\n"
    assert not Path("/job").exists()


async def test_every_host_name_of_the_gang_is_this_machine(desk: Bench, home: Path):
    gang = gang_of(
        "hostname; getent hosts $(hostname) $OTHER; cat /etc/trainmaster/hosts/worker",
        "true",
        files={"hosts/worker": "a\nb\n"},
    )
    other = gang.host_name(gang.replicas[1])
    gang = replace(gang, replicas=(replace(gang.replicas[0], env={"OTHER": other}), gang.replicas[1]))

    await desk.run(gang)

    name, mine, others, *hosts = log_of(home, gang).splitlines()
    assert name == gang.replica_id(gang.replicas[0])
    assert mine.split() == ["127.0.0.1", gang.host_name(gang.replicas[0]), name]
    assert others.split()[:2] == ["127.0.0.1", other]
    assert hosts == ["a", "b"]


async def test_replicas_share_code_but_not_tmp_or_shm(desk: Bench, home: Path):
    check = (
        "test ! -e /tmp/x; test ! -e /dev/shm/x; touch /tmp/x /var/tmp/y /dev/shm/x; test -w /code; cat train.py; pwd"
    )
    gang = gang_of(f"set -e; {check}", f"set -e; sleep 0.1; {check}", code=CodeInline({"train.py": "print()\n"}))

    ends = await desk.run(gang)

    assert ends == [ReplicaExit(code=0)] * 2, log_of(home, gang)
    assert log_of(home, gang) == "print()\n/code\n"
    assert {"x", "y"} <= names(replica_dir(home, gang) / "tmp")  # and room for what is needed of the host's /tmp


async def test_devices_are_there_but_no_disks_and_no_terminals(desk: Bench, home: Path):
    said = await output(desk, home, "ls /dev; ls /dev/pts; echo x > /dev/null; head -c 2 /dev/urandom | wc -c; ls /run")

    disks = {path.name for path in Path("/dev").iterdir() if stat.S_ISBLK(path.lstat().st_mode)}
    assert {"null", "zero", "urandom", "shm", "ptmx"} <= set(said.split())
    assert not disks & set(said.split())
    assert not {"kmsg", "mem", "tty1", "systemd"} & set(said.split())


async def test_a_single_file_can_be_mounted(desk: Bench, home: Path, storage: Path):
    (storage / "file").write_text("one file")

    said = await output(desk, home, "cat /mnt/tm-absent/f", mounts=(GangMount(storage / "file", "/mnt/tm-absent/f"),))

    assert said == "one file"


async def test_threads_and_python_work(desk: Bench, home: Path):
    parts = "m.Lock(); m.Queue(); tempfile.mkdtemp(); print(socket.gethostbyname(socket.gethostname()))"
    program = f"import multiprocessing as m, tempfile, socket; {parts}"

    assert await output(desk, home, f"python3 -c '{program}'") == "127.0.0.1\n"


def names(path: str | Path) -> set[str]:
    return {entry.name for entry in Path(path).iterdir()}


@pytest.fixture
def place_of_users() -> Iterator[Path]:
    """A directory that replicas see unless it is hidden; those below /tmp are never seen."""
    with TemporaryDirectory(dir=Path.home(), prefix=".trainmaster-test-") as directory:
        (Path(directory) / "mine").mkdir()
        (Path(directory) / "mine/file").write_text("mine")
        (Path(directory) / "secret").write_text("of another user")
        yield Path(directory)


async def test_places_of_users_are_seen_only_where_they_are_mounted(desk: Bench, home: Path, place_of_users: Path):
    command = f"ls -A {place_of_users}; cat /mnt/data/file; cat {place_of_users}/secret 2>&1 || true"
    mount = GangMount(place_of_users / "mine", "/mnt/data")

    assert "of another user" in await output(desk, home, command, mounts=(mount,))
    said = await output(desk, home, command, mounts=(mount,), hidden=(place_of_users,))

    assert said.startswith("mine")
    assert "of another user" not in said


async def test_a_hidden_place_can_be_mounted_where_it_lies(desk: Bench, home: Path, place_of_users: Path):
    mount = GangMount(place_of_users / "mine", str(place_of_users / "mine"))

    said = await output(desk, home, f"ls -A {place_of_users}", mounts=(mount,), hidden=(place_of_users,))

    assert said.split() == ["mine"]
    assert not list(place_of_users.glob("mine/mine"))


async def test_a_hidden_place_that_holds_the_programs_leaves_them_usable(desk: Bench, home: Path):
    said = await output(desk, home, "python3 -c 'print(1)'", hidden=(Path(sys.prefix).parent, Path(sys.base_prefix)))

    assert said == "1\n"
