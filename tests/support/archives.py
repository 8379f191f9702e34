"""Code as users upload it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping


def archive(files: Mapping[str, str]) -> io.BytesIO:
    """A gzipped tar file of these texts by name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    packed.seek(0)
    return packed
