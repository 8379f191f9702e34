from __future__ import annotations

import errno

from shared.shortages import is_shortage


def test_a_full_disk_is_a_shortage_and_a_bad_name_is_none():
    assert is_shortage(OSError(errno.ENOSPC, "No space left on device"))
    assert not is_shortage(OSError(errno.ENAMETOOLONG, "File name too long"))
    assert not is_shortage(ValueError("No space left on device"))
