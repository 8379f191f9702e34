"""Opens what a gang mounts or copies, so that what was checked is what is used.

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
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangMount


class MountOpener:
    """Opens mounts for one start; descriptors are closed with the stack."""

    def __init__(self, home: Path, stack: ExitStack, *, as_descriptors: bool) -> None:
        self._home = home
        self._stack = stack
        self._as_descriptors = as_descriptors

    def open(self, mount: GangMount) -> Bind:
        """The mount for the sandbox; raises StartRefusedError where it is not there or not allowed."""
        if mount.source is None:
            raise StartRefusedError(f"{mount.path}: {mount.uri} is not on this machine")
        _make_room(mount.source, mount)
        fd = open_allowed(mount.source, mount.root, None if mount.made else self._home, at=mount.path)
        self._stack.callback(os.close, fd)
        source = str(Path(f"/proc/self/fd/{fd}").readlink())
        return Bind(fd if self._as_descriptors else source, mount.path, mount.read_only)


def open_allowed(source: Path, root: Path | None, home: Path | None, *, at: str, whole: bool = False) -> int:
    """Descriptor (O_PATH) of a place on the host that is wanted `at` a path in the replica.

    Wherever links lead to, it must lie within `root`, where there is one, and not within the platform's home. The
    sandbox covers a home that lies deeper; what will be copied as a `whole` must not hold it. Raises StartRefusedError.
    """
    try:
        fd = os.open(source, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise StartRefusedError(f"{at}: {source} cannot be used: {error.strerror}") from error
    try:
        leads_to = str(Path(f"/proc/self/fd/{fd}").readlink())
        _check_root(source, leads_to, root)
        _check_home(source, leads_to, home, whole=whole)
    except _NotAllowedError as error:
        os.close(fd)
        raise StartRefusedError(f"{at}: {error}") from None
    return fd


class _NotAllowedError(Exception):
    """Why a place must not be had."""


def _check_root(source: Path, leads_to: str, root: Path | None) -> None:
    if root is not None and not is_within(leads_to, os.path.realpath(root)):
        raise _NotAllowedError(f"{source} leads to {leads_to}, out of {root}")


def _check_home(source: Path, leads_to: str, home: Path | None, *, whole: bool) -> None:
    if home is None:
        return
    here = os.path.realpath(home)
    if is_within(leads_to, here) or (whole and is_within(here, leads_to)):
        raise _NotAllowedError(f"{source} would show the platform's own state; use another folder")


def _make_room(source: Path, mount: GangMount) -> None:
    """Make a folder that a writable mount names and that does not exist yet, inside of what an admin allowed."""
    if mount.root is None or mount.read_only or not mount.root.is_dir():
        return
    if is_within(os.path.realpath(source), os.path.realpath(mount.root)):
        with suppress(OSError):  # opening it will tell
            source.mkdir(parents=True, exist_ok=True)
