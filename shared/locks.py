"""Whether a file is locked by somebody (`flock`): how the platform and each replica's runner show that they live."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_locked(file: Path) -> bool:
    """Whether somebody holds the lock; a file that is gone is held by nobody, and a link is not followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
