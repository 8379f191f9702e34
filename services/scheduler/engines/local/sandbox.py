"""What a replica sees of the machine, as arguments for bubblewrap; and whether bubblewrap works here.

The root is a tmpfs. The host's top-level entries are bound back, read-only, so that programs are found where they are
on the host and a job can change nothing but its mounts, its code and its own /tmp. A mount point that the host does not
have needs room: its parents are made anew, as folders whose entries are links to the host's own, which is bound below
`/.host` for that purpose. Nothing is created on the host, and a link costs next to nothing, where a bind mount costs a
look at the whole mount table. `/etc` is always made this way, since `/etc/hosts` and `/etc/trainmaster` are laid in it.

Not the host's are: `/proc` (the job's processes only), `/dev` (the usual devices, a `/dev/shm` of its own, and what
accelerators need; no disks and no terminals), `/tmp`, and `/run`, in which system services listen. What the platform
wants unseen (its own state first of all) is covered by empty folders. What the replica needs although it lies in such
a place, such as an interpreter below /tmp, is bound there again.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.scheduler.engines.local.host_tree import HostTree, Kind, ancestors, is_within
from services.scheduler.ports.engine import StartRefusedError

HOST: Final = "/.host"
PRIVATE: Final = ("/dev", "/proc", "/run", "/tmp")  # noqa: S108  # made anew in the sandbox, not used here
UNFIT_FOR_MOUNTS: Final = ("/dev", "/proc", "/sys", "/usr", "/etc/hosts", "/etc/trainmaster", HOST)
ACCELERATORS: Final = ("nvidia*", "gdrdrv", "infiniband", "dri", "kfd", "accel*")
# What root could still write in a new /proc; bubblewrap itself covers bus, irq and sysrq-trigger.
MACHINE_CONTROLS: Final = ("/proc/sys", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/mtrr")
RUN_FOR_ACCELERATORS: Final = ("/run/nvidia-persistenced", "/run/nvidia-fabricmanager")
ARGUMENTS_MAX: Final = 8_900  # bubblewrap takes 9,000


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory of the host, by path or by open descriptor, at a path of the sandbox."""

    source: str | int
    path: str
    read_only: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        option = "--ro-bind" if self.read_only else "--bind"
        return (option if isinstance(self.source, str) else f"{option}-fd", str(self.source), self.path)


@dataclass(frozen=True, slots=True)
class View:
    """What is particular to one replica: its name, its directories on the host, its mounts, and what it may not see.

    `unseen` are resolved paths of the host like `Sandbox.hidden`; but what the replica mounts, it sees whole.
    """

    host_name: str
    tmp: str
    hosts_file: str
    files: str
    mounts: tuple[Bind, ...] = ()
    unseen: tuple[str, ...] = ()
    hostfile_at: str | None = None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How replicas are shut in on this machine; `hidden` and `needed` are resolved paths of the host."""

    bwrap: str
    hidden: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    drop_capabilities: bool = False
    binds_descriptors: bool = False

    def arguments(self, view: View, host: HostTree) -> list[str]:
        """Options of bubblewrap; raises StartRefusedError where a mount cannot be had."""
        mounts = tuple(Bind(each.source, host.resolve_parent(each.path), each.read_only) for each in view.mounts)
        self._check(mounts, host)
        binds = (*_laid(view, host), *sorted(mounts, key=lambda bind: bind.path))
        root = Root(host, frozenset(bind.path for bind in binds), (*self.hidden, *view.unseen))
        arguments = [
            *self._namespaces(view.host_name),
            *root.arguments(),
            *_private(view.tmp, host),
            *_second_hostfile(view.hostfile_at, mounts, host),
            *self._covers(root, view.unseen),
            *(argument for bind in binds for argument in bind.arguments),
            *self._covers_in(mounts, host),
        ]
        if len(arguments) > ARGUMENTS_MAX:
            raise StartRefusedError(
                f"the mount points {', '.join(bind.path for bind in mounts)} lie in folders with so many entries that "
                "no room can be made for them; create them on the host, or mount elsewhere, such as below /mnt"
            )
        return arguments

    def _check(self, mounts: Iterable[Bind], host: HostTree) -> None:
        paths = sorted((bind.path for bind in mounts), key=lambda path: path.split("/"))
        for path in paths:
            tree = next((tree for tree in UNFIT_FOR_MOUNTS if is_within(path, tree)), None)
            if tree is not None or path == "/":
                raise StartRefusedError(f"{path}: nothing can be mounted in {tree or path}; mount below /mnt, say")
            covered = next((needed for needed in self.needed if is_within(needed, path)), None)
            if covered is not None:
                raise StartRefusedError(f"{path}: a mount there would hide {covered}, which the replica needs to run")
            file = next((folder for folder in ancestors(path) if host.kind(folder) is Kind.OTHER), None)
            if file is not None:
                raise StartRefusedError(f"{path}: {file} is no folder on this machine; mount elsewhere")
        for path, following in itertools.pairwise(paths):
            if is_within(following, path):
                raise StartRefusedError(f"{following}: lies in the mount at {path}; mount them side by side")

    def _namespaces(self, host_name: str) -> Iterator[str]:
        yield from ("--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--hostname", host_name)
        if self.drop_capabilities:
            yield from ("--cap-drop", "ALL")

    def _covers(self, root: Root, places: tuple[str, ...]) -> Iterator[str]:
        """Empty folders over what is to stay unseen, and bound back into them what is needed; the deeper path wins."""
        unseen = (*PRIVATE, *self.hidden, *places)
        needed = (path for path in self.needed if any(is_within(path, place) for place in unseen))
        hidden = (path for path in (*self.hidden, *places) if root.shows(path))
        for path in sorted({*needed, *hidden}, key=lambda path: path.count("/")):
            if path in self.needed:
                yield from ("--ro-bind", path, root.place(path))
            else:
                yield from _cover(root.place(path), root.host.kind(path))

    def _covers_in(self, mounts: Iterable[Bind], host: HostTree) -> Iterator[str]:
        """The same over what is to stay unseen inside of a mounted directory."""
        for bind in mounts:
            source = bind.source if isinstance(bind.source, str) else _path_of(bind.source)
            for path in self.hidden:
                if path != source and is_within(path, source) and host.kind(path) is not Kind.MISSING:
                    yield from _cover(bind.path + path[len(source.rstrip("/")) :], host.kind(path))


class Root:
    """The sandbox's root as far as it comes from the host, with room for every mount point."""

    def __init__(self, host: HostTree, points: frozenset[str], hidden: tuple[str, ...]) -> None:
        self.host = host
        self._points = points
        self._hidden = hidden
        self._remade = self._folders_to_remake()
        self._remade_tops = {path for path in self._remade if path.count("/") == 1}

    def shows(self, path: str) -> bool:
        """Whether something of the host is at this path that could be seen."""
        return self.host.kind(path) is not Kind.MISSING and not any(is_within(path, private) for private in PRIVATE)

    def place(self, path: str) -> str:
        """Where the sandbox has what the host has at this path, without a link on the way."""
        return HOST + path if any(is_within(path, top) for top in self._remade_tops) else path

    def arguments(self) -> Iterator[str]:
        """Options that make the root."""
        yield from ("--tmpfs", "/", "--dir", HOST)
        for path in self._children("/"):
            if path not in PRIVATE:
                yield from self._top(path)
        for folder in sorted(self._remade):
            yield from self._remake(folder)

    def _folders_to_remake(self) -> frozenset[str]:
        """Parents of mount points that the host does not have, and of every other one below the same top folder."""
        lacking = {point for point in self._points if self.host.kind(point) is not Kind.DIRECTORY}
        tops = {ancestors(point)[0] for point in lacking if ancestors(point)} - set(PRIVATE)
        folders = {folder for point in self._points for folder in ancestors(point) if ancestors(point)[0] in tops}
        return frozenset(folder for folder in folders if self.host.kind(folder) is Kind.DIRECTORY)

    def _top(self, path: str) -> Iterator[str]:
        if path in self._points:
            return
        if self.host.kind(path) is Kind.LINK:
            yield from ("--symlink", self.host.target(path), path)
        elif path in self._remade_tops:
            yield from ("--ro-bind", path, HOST + path)
        else:
            yield from ("--ro-bind", path, path)
            # Relative links below /.host must lead somewhere too.
            yield from ("--symlink", path, HOST + path)

    def _remake(self, folder: str) -> Iterator[str]:
        yield from ("--dir", folder)
        if any(is_within(folder, hidden) for hidden in self._hidden):
            return
        for path in self._children(folder):
            if path not in self._remade and path not in self._points:
                is_link = self.host.kind(path) is Kind.LINK
                yield from ("--symlink", self.host.target(path) if is_link else HOST + path, path)

    def _children(self, folder: str) -> Iterator[str]:
        for name in self.host.names(folder):
            yield f"{folder.rstrip('/')}/{name}"


def _laid(view: View, host: HostTree) -> Iterator[Bind]:
    yield Bind(view.hosts_file, "/etc/hosts", read_only=True)
    yield Bind(view.files, "/etc/trainmaster", read_only=True)
    if host.kind("/var/tmp") is Kind.DIRECTORY:  # noqa: S108
        yield Bind(view.tmp, "/var/tmp")  # noqa: S108


def _private(tmp: str, host: HostTree) -> Iterator[str]:
    yield from ("--proc", "/proc")
    for path in MACHINE_CONTROLS:
        if host.kind(path) is not Kind.MISSING:
            yield from ("--ro-bind", path, path)
    yield from ("--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108
    for name in host.names("/dev"):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in ACCELERATORS):
            yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    yield from ("--bind", tmp, "/tmp", "--tmpfs", "/run")  # noqa: S108
    for path in (str(Path(host.resolve("/etc/resolv.conf")).parent), *RUN_FOR_ACCELERATORS):
        if is_within(path, "/run") and path != "/run" and host.kind(path) is Kind.DIRECTORY:
            yield from ("--ro-bind", path, path)


def _second_hostfile(path: str | None, mounts: Iterable[Bind], host: HostTree) -> Iterator[str]:
    """A link to the hostfile where a launcher looks for it, unless a mount or the host has that place."""
    if path is None or any(is_within(path, each.path) for each in mounts):
        return
    if host.kind(ancestors(path)[0]) is Kind.MISSING:
        yield from ("--symlink", "/etc/trainmaster/hostfile", path)


def _path_of(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def _cover(path: str, kind: Kind) -> tuple[str, ...]:
    return ("--tmpfs", path) if kind is Kind.DIRECTORY else ("--ro-bind", os.devnull, path)
