"""Which places may get a name: the rule about URIs of data.

A storage is an admin's word that a directory may be used, and by whom. Everything else that points to a directory (a
dataset, a model, a code set) must lie inside a storage that its owner may use, or under a prefix that the settings open
for all and that no closed storage touches; admins may point anywhere. Nobody may point at the platform's own state.
The same holds for buckets, claims and servers, which the platform or its cluster reads with one account of its own; a
path here is then the whole URI.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shared.catalog import Asker, Catalog, Storage, may_use
from shared.catalog.fields import S3_SCHEME, place_of
from shared.documents.fields import shown
from shared.errors import Violation

_KERNEL_TREES: Final = ("/proc", "/sys")


@dataclass(frozen=True, slots=True)
class Locations:
    """Prefixes that the settings open (none: storages alone decide), and the platform's own directory."""

    prefixes: tuple[str, ...]
    home: str
    has_s3: bool = False

    def storage_violation(self, path: str, pointer: str) -> Violation | None:
        """What is wrong with the root of a storage, which an admin gives."""
        if path.startswith(S3_SCHEME):
            return self._no_s3(pointer)
        if not path.startswith("/"):
            return None
        if self._touches_home(path):
            return _refusal(pointer, f"{shown(path)} would show the platform's own state; choose another directory")
        if _is_of_the_kernel(path):
            return _of_the_kernel(path, pointer)
        if self.prefixes and not any(within(path, prefix) for prefix in self.prefixes):
            return _refusal(pointer, f"{shown(path)} is under none of the allowed prefixes: {', '.join(self.prefixes)}")
        return None

    def data_violation(self, path: str, pointer: str, asker: Asker, catalog: Catalog) -> Violation | None:
        """What is wrong with a place that a dataset, model or code set names."""
        if path.startswith(S3_SCHEME) and not self.has_s3:
            return self._no_s3(pointer)
        if self._touches_home(path):
            return _refusal(pointer, f"{shown(path)} would show the platform's own state; choose another directory")
        if _is_of_the_kernel(path):
            return _of_the_kernel(path, pointer)
        if asker.admin or any(within(path, root) for root in _roots(catalog, asker, usable=True)):
            return None
        closed = any(_touch(path, root) for root in _roots(catalog, asker, usable=False))
        if not closed and any(within(path, prefix) for prefix in self.prefixes):
            return None
        usable = ", ".join(sorted(_roots(catalog, asker, usable=True))) or "none yet; an admin can apply a Storage"
        return _refusal(pointer, f"{shown(path)} is in no storage that you may use; their roots are: {usable}")

    def root_of(self, path: str, asker: Asker, catalog: Catalog) -> str:
        """The directory that no link may lead out of on the way to this one, which its owner may name.

        Whoever writes to a storage can make links in it, and what lies outside is not theirs to show.
        """
        roots = (*_roots(catalog, asker, usable=True), *self.prefixes)
        return max((root for root in roots if within(path, root)), key=len, default=path)

    def _no_s3(self, pointer: str) -> Violation | None:
        sentence = (
            "this platform has no object store, so nothing can be at s3://; whoever runs it can set "
            "TRAINMASTER_S3_KEY_ID, TRAINMASTER_S3_SECRET_KEY_FILE and, outside of AWS, TRAINMASTER_S3_ENDPOINT"
        )
        return None if self.has_s3 else Violation(pointer, "s3-not-configured", sentence)

    def _touches_home(self, path: str) -> bool:
        return _touch(path, self.home)


def no_directory(path: str, pointer: str) -> Violation:
    """The refusal of a place at which there is nothing."""
    sentence = f"there is nothing at {shown(path, 200)} on this machine; make the directory, or name another"
    return Violation(pointer, "no-such-directory", sentence)


def _is_of_the_kernel(path: str) -> bool:
    return any(within(path, tree) for tree in _KERNEL_TREES)


def _of_the_kernel(path: str, pointer: str) -> Violation:
    return _refusal(pointer, f"{shown(path)} would show the processes of the machine and of others; give a directory")


def _refusal(pointer: str, sentence: str) -> Violation:
    return Violation(pointer, "location-not-allowed", sentence)


def _roots(catalog: Catalog, asker: Asker, *, usable: bool) -> Iterator[str]:
    for storage in catalog.all(Storage):
        if may_use(storage.owner, storage.spec.access, asker) is usable:
            yield place_of(storage.spec.uri)


def within(path: str, folder: str) -> bool:
    """Whether the place is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _touch(one: str, other: str) -> bool:
    return within(one, other) or within(other, one)
