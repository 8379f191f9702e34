"""Whether a directory keeps what is written to it: a file is made, written, brought to the disk and read back.

The file has no name (`O_TMPFILE`), so no one sees it and nothing is left behind, whatever happens to the process. File
systems that have no such files, as NFS, get one with a hidden name that nobody else has, which is removed as soon as it
is open. Files of others are never touched.
"""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

PATTERN = bytes(range(256)) * 16
_MODE = 0o600
_WITHOUT_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})


def keeps(directory: str) -> bool:
    """Whether what is written there can be read again; False where it cannot be written, or there is no room."""
    try:
        descriptor = _opened(directory)
    except OSError:
        return False
    try:
        written = os.pwrite(descriptor, PATTERN, 0)
        os.fsync(descriptor)
        # What is read is to come from the disk, and not from the memory of this machine.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return written == len(PATTERN) and os.pread(descriptor, len(PATTERN) + 1, 0) == PATTERN
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _opened(directory: str) -> int:
    """A file that is gone once it is closed. Raises OSError."""
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR, _MODE)
    except OSError as error:
        if error.errno not in _WITHOUT_NAMELESS:
            raise
    path = Path(directory) / f".trainmaster-probe-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
    try:
        path.unlink()
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
