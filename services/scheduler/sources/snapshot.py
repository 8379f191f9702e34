"""Takes over a git repository of this machine without trusting a byte of its configuration.

Whoever wrote it may have put commands into its configuration, and links or alternates that lead to the objects of
others. So git is never run on it: objects and references alone are copied into a repository of our own, and only what
is a plain file. References come first, so that everything they name is there when the objects are copied.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from services.scheduler.sources.git_command import GitError
from shared.trees import DEPTH_MAX
from shared.units import format_bytes

_BLOCK: Final = 1 << 20
_PARTS: Final = ("packed-refs", "refs", "objects")  # `HEAD` is read apart
_HEAD_MAX_BYTES: Final = 1024


def take_over(source: Path, root: Path, target: Path, most_bytes: int) -> None:
    """Copy what matters of the repository into a bare one; raises GitError where there is none, or not below `root`."""
    repository = _found(source, root)
    budget = most_bytes
    _copy_head(repository, target)
    for part in _PARTS:
        for folder, name, folder_fd in _files(repository / part):
            place = target / part / folder / name if folder is not None else target / part
            budget = _copy(folder_fd, name, place, budget, most_bytes)


def _found(source: Path, root: Path) -> Path:
    real = Path(os.path.realpath(source))
    if not real.is_relative_to(os.path.realpath(root)):
        raise GitError(f"it leads out of {root}")
    for candidate in (real / ".git", real):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir() and not candidate.is_symlink():
            return candidate
    raise GitError("there is no git repository; a linked worktree or a submodule is none of its own")


def _copy_head(repository: Path, target: Path) -> None:
    fd = os.open(repository / "HEAD", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as head:
        (target / "HEAD").write_bytes(head.read(_HEAD_MAX_BYTES))


def _files(part: Path) -> Iterator[tuple[Path | None, str, int]]:
    """Folder relative to the part (None for a part that is a file itself), name, and descriptor of the folder."""
    if not part.is_dir():
        parent = os.open(part.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield None, part.name, parent
        finally:
            os.close(parent)
        return
    for folder, folders, names, fd in os.fwalk(part, follow_symlinks=False):
        relative = Path(folder).relative_to(part)
        if len(relative.parts) >= DEPTH_MAX:
            raise GitError(f"its folders lie more than {DEPTH_MAX} deep in each other")
        if part.name == "objects" and relative == Path():
            folders[:] = [name for name in folders if name != "info"]  # alternates are in there
        for name in names:
            yield relative, name, fd


def _copy(folder_fd: int, name: str, target: Path, budget: int, most_bytes: int) -> int:
    """Copy one file if it is a plain one; the budget that is left."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return budget
    with os.fdopen(fd, "rb") as source:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return budget
        if found.st_size > budget:
            raise GitError(f"it has more than {format_bytes(most_bytes)}, the most accepted")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(source, file, _BLOCK)
    return budget - found.st_size
