"""The host's file tree as the sandbox's plan needs it: kinds, names, links; a test looks at another root than `/`."""

# ruff: noqa: PTH112, PTH114, PTH115, PTH118, PTH208  # paths here are texts of a tree that need not be at this process's root

from __future__ import annotations

import os
from enum import Enum, auto


class Kind(Enum):
    """What is at a path; links are not followed."""

    DIRECTORY = auto()
    LINK = auto()
    OTHER = auto()
    MISSING = auto()


class HostTree:
    """Looks at a tree; all paths are absolute in that tree."""

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    def kind(self, path: str) -> Kind:
        """What is at the path."""
        real = self._root + path
        if os.path.islink(real):
            return Kind.LINK
        if os.path.isdir(real):
            return Kind.DIRECTORY
        return Kind.OTHER if os.path.lexists(real) else Kind.MISSING

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; none where it cannot be read."""
        try:
            return sorted(os.listdir(self._root + path))
        except OSError:
            return []

    def target(self, path: str) -> str:
        """What a link says."""
        return os.readlink(self._root + path)

    def resolve(self, path: str) -> str:
        """The path with every link followed."""
        resolved = "/"
        for name in path.split("/"):
            resolved = self._step(resolved, name, links_left=40)
        return resolved

    def resolve_parent(self, path: str) -> str:
        """The path with every link followed but a last one."""
        parent, name = os.path.split(os.path.normpath(path))
        return os.path.join(self.resolve(parent), name)

    def _step(self, folder: str, name: str, links_left: int) -> str:
        path = os.path.normpath(os.path.join(folder, name))
        if self.kind(path) is not Kind.LINK or links_left == 0:
            return path
        target = self.target(path)
        resolved = "/" if target.startswith("/") else folder
        for part in target.split("/"):
            resolved = self._step(resolved, part, links_left - 1)
        return resolved


def is_within(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def ancestors(path: str) -> list[str]:
    """Every folder above a path but the root, from the top down."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts))]
