"""A directory on a mount of a job, on this machine: how records are found that no agent shipped.

Whoever writes to a mount can make links on it. The check here keeps the directory within the place that the mount's
owner may use; TensorBoard then sees that place alone, so that a link made later leads nowhere else either.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from shared.errors import InvalidInputError, Violation
from shared.events import ResolvedMount
from shared.jobs import Job

_FILE: Final = "file://"
_POINTER: Final = "/dir"


@dataclass(frozen=True, slots=True)
class MountPlace:
    """A directory below a place that user code cannot replace."""

    root: Path
    below: str


@dataclass(frozen=True, slots=True)
class MountPath:
    """A path of the job's replicas: the mount that it is on, and the way from there."""

    shown: str
    mount: ResolvedMount
    rest: str


def mount_path(job: Job, path: str) -> MountPath:
    """The mount that has a path of the job's replicas; raises InvalidInputError."""
    clean = os.path.normpath(path)
    mounts = job.submitted.resolved.mounts
    mount = next((each for each in mounts if _within(clean, each.mount_path)), None)
    if mount is None:
        there = ", ".join(each.mount_path for each in mounts) or "none"
        raise wrong("not-on-a-mount", f"{clean} is on no mount of the job; its mounts are: {there}")
    return MountPath(clean, mount, clean[len(mount.mount_path.rstrip("/")) :].lstrip("/"))


def place_on_machine(path: MountPath, home: Path) -> MountPlace:
    """Where such a path is on this machine; raises InvalidInputError."""
    mount = path.mount
    source = _local(mount, mount.uri)
    return _checked(path.shown, source / path.rest, _local(mount, mount.root) if mount.root else source, home)


def _checked(shown: str, directory: Path, root: Path, home: Path) -> MountPlace:
    real_root, real = Path(os.path.realpath(root)), Path(os.path.realpath(directory))
    if not _within(str(real), str(real_root)):
        raise wrong("not-allowed", f"{shown} leads out of the mount")
    if not real.is_dir():
        raise wrong("not-found", f"there is no directory {shown} now; name one that has event files in or below it")
    if _within(os.path.realpath(home), str(real_root)):
        raise wrong("not-allowed", f"{shown} is beside the platform's own state, which must not be shown")
    return MountPlace(real_root, real.relative_to(real_root).as_posix())


def _local(mount: ResolvedMount, uri: str) -> Path:
    if uri.startswith(_FILE):
        return Path(unquote(urlsplit(uri).path))
    if uri.startswith("/"):
        return Path(uri)
    scheme = uri.partition("://")[0]
    raise wrong(
        "not-on-this-machine",
        f"the mount at {mount.mount_path} is at {scheme}://, and TensorBoard reads directories of this machine; "
        "what the job wrote below its spec.tensorboard.logDir is kept by the platform and shown without --dir",
    )


def wrong(code: str, message: str) -> InvalidInputError:
    """What is wrong with the directory that was asked for."""
    return InvalidInputError((Violation(_POINTER, code, message),))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
