"""Opens what a gang mounts, so that what was checked is what is mounted.

A storage may be written by many jobs, so a name in it may be turned into a link at any moment. The source is therefore
opened first, and the descriptor is what is looked at and handed to bubblewrap. A bubblewrap that takes no descriptors
gets the resolved path, which leaves a moment for such a trick.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from services.scheduler.engines.local.host_tree import is_within
from services.scheduler.engines.local.sandbox import Bind
from services.scheduler.ports import GangMount, StartRefusedError


class MountOpener:
    """Opens mounts for one start; descriptors are closed with the stack."""

    def __init__(self, home: Path, stack: ExitStack, *, as_descriptors: bool) -> None:
        self._home = home
        self._stack = stack
        self._as_descriptors = as_descriptors

    def open(self, mount: GangMount) -> Bind:
        """The mount for the sandbox; raises StartRefusedError where it is not there or not allowed."""
        _make_room(mount)
        try:
            fd = os.open(mount.source, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise StartRefusedError(f"{mount.path}: {mount.source} cannot be mounted: {error.strerror}") from error
        self._stack.callback(os.close, fd)
        source = str(Path(f"/proc/self/fd/{fd}").readlink())
        if mount.root is not None and not is_within(source, str(mount.root.resolve())):
            raise StartRefusedError(f"{mount.path}: {mount.source} leads to {source}, out of {mount.root}")
        if is_within(source, str(self._home)):
            raise StartRefusedError(f"{mount.path}: {mount.source} belongs to the platform; mount another folder")
        return Bind(fd if self._as_descriptors else source, mount.path, mount.read_only)


def _make_room(mount: GangMount) -> None:
    """Make a folder that a writable mount names and that does not exist yet, inside of what an admin allowed."""
    if mount.root is None or mount.read_only or not mount.root.is_dir():
        return
    if is_within(str(mount.source.resolve()), str(mount.root.resolve())):
        with suppress(OSError):  # opening it will tell
            mount.source.mkdir(parents=True, exist_ok=True)
