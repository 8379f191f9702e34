"""Spreads texts over as many ConfigMaps as they need, since one holds at most 1 MiB.

What stands in the same order is spread in the same way, so that a repeated start makes the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from shared.units import KIB

# Under the limit of 1 MiB by what names, labels and annotations may take.
BODY_MAX_BYTES: Final = 960 * KIB

ContentT = TypeVar("ContentT", str, bytes)


def size_of(content: str | bytes) -> int:
    """Bytes that count."""
    return len(content.encode()) if isinstance(content, str) else len(content)


def packed(contents: Mapping[str, ContentT], most_bytes: int = BODY_MAX_BYTES) -> tuple[dict[str, ContentT], ...]:
    """The contents by key in parts, each within the limit; none where there are no contents.

    A content that passes the limit alone makes a part that nothing else is in; whoever calls has to have excluded that.
    """
    parts: list[dict[str, ContentT]] = []
    left = 0
    for key, content in contents.items():
        size = len(key) + size_of(content)
        if not parts or size > left:
            parts.append({})
            left = most_bytes
        parts[-1][key] = content
        left -= size
    return tuple(parts)


def too_large(contents: Iterable[str | bytes], most_bytes: int = BODY_MAX_BYTES) -> bool:
    """Whether one of them fits into no ConfigMap."""
    return any(size_of(content) > most_bytes - KIB for content in contents)
