"""Texts of which a ConfigMap holds little and a gang has much: compressed, in base64.

Whoever may write a ConfigMap may make one that unpacks into gigabytes, so that only so much is unpacked.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from typing import Final

_TEXT_MAX_BYTES: Final = 1 << 24
"""Many times what the largest gang takes."""


def zipped(text: str) -> str:
    """The text as `binaryData` has it; the same text gives the same."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unzipped(data: str) -> bytes:
    """The reverse; raises ValueError."""
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacking.decompress(base64.b64decode(data), _TEXT_MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise ValueError("it is cut off, or unpacks into too much")
    return text
