"""Inline files as the archive that an upload would be: the same files give the same bytes and the same digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Packed:
    """A gzipped tar file and its digest."""

    digest: str
    content: bytes = field(repr=False)


def pack(files: Mapping[str, str]) -> Packed:
    """Archive of texts by relative path, without times and owners."""
    content = gzip.compress(_tar(files), compresslevel=0, mtime=0)
    return Packed(f"sha256:{hashlib.sha256(content).hexdigest()}", content)


def compressed(files: Mapping[str, str]) -> bytes:
    """The same archive as small as it gets; its bytes may differ between versions of the compression."""
    return gzip.compress(_tar(files), mtime=0)


def _tar(files: Mapping[str, str]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            content = files[path].encode()
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), _FILE_MODE
            archive.addfile(member, io.BytesIO(content))
    return plain.getvalue()
