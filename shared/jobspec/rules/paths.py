"""Rules about mounts, and about the directories that must lie on one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import TypeAdapter

from shared.documents.fields import AbsolutePath, shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import MountPath

_MOUNTS: Final = ("spec", "mounts")
_MOUNT_PATH: Final = TypeAdapter(MountPath)
_PATH: Final = TypeAdapter(AbsolutePath)


def is_within(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_paths_are_apart(draft: Draft) -> Iterator[Violation]:
    """No mount hides another: no path twice, and none inside another."""
    before: list[str] = []
    for index, path in _mount_paths(draft):
        other = next((other for other in before if is_within(path, other) or is_within(other, path)), None)
        if other is not None:
            code = "mount-path-twice" if path == other else "mount-path-nested"
            yield Violation(
                pointer((*_MOUNTS, index, "mountPath")),
                code,
                f"{shown(path)} and the mount at {shown(other)} would hide each other; mount them side by side",
            )
        before.append(path)


def tensorboard_is_on_a_mount(draft: Draft) -> Iterator[Violation]:
    """Event files outlive the replica only on a mount."""
    yield from _on_a_writable_mount(draft, "spec", "tensorboard", "logDir")


def checkpoint_is_on_a_mount(draft: Draft) -> Iterator[Violation]:
    """Checkpoints outlive the replica only on a mount."""
    yield from _on_a_writable_mount(draft, "spec", "checkpoint", "dir")


def _on_a_writable_mount(draft: Draft, *place: str) -> Iterator[Violation]:
    folder = draft.get(_PATH, *place)
    mounts = dict(_mount_paths(draft))
    # With a mount whose path cannot be read nobody can tell whether the folder is on it.
    if folder is None or len(mounts) < draft.length(*_MOUNTS):
        return
    index = next((index for index, path in mounts.items() if is_within(folder, path)), None)
    if index is None:
        where = ", ".join(map(shown, mounts.values())) or "none yet"
        yield Violation(
            pointer(place), "not-on-a-mount", f"{shown(folder)} is on no mount of the job; its mounts: {where}"
        )
    elif draft.raw(*_MOUNTS, index, "readOnly") is True:
        yield Violation(
            pointer(place),
            "mount-read-only",
            f"the mount at {shown(mounts[index])} is read-only; choose another or set readOnly: false",
        )


def _mount_paths(draft: Draft) -> Iterator[tuple[int, str]]:
    for index in range(draft.length(*_MOUNTS)):
        path = draft.get(_MOUNT_PATH, *_MOUNTS, index, "mountPath")
        if path is not None:
            yield index, path
