"""Which errors say that this machine is short of something for the moment, and not that what was asked for is bad.

Whoever meets one of these tries again later and blames nobody: a full disk may be emptied, other errors stay.
"""

from __future__ import annotations

import errno
from typing import Final

_SHORTAGES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_shortage(error: Exception) -> bool:
    """Whether the same may succeed once the machine has what it lacks now."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES
