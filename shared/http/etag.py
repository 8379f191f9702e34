"""Entity tags: the ETag of a thing is its sequence, and `If-Match` brings it back as the sequence a writer expects."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Depends, Header

from shared.errors import ConflictError, InvalidInputError, Violation

_STRONG_TAG: Final = re.compile(r'"([0-9]{1,18})"', re.ASCII)


def etag(sequence: int) -> str:
    """The header value for a sequence."""
    return f'"{sequence}"'


def parse_if_match(header: str | None) -> int | None:
    """The sequence that the header names; None where any version will do."""
    if header is None or header.strip() == "*":
        return None
    match = _STRONG_TAG.fullmatch(header.strip())
    if match is None:
        message = f'{header[:40]!r} is no ETag of this API; send back what the ETag header gave, such as "17", or *'
        raise InvalidInputError((Violation("/header/if-match", "bad-etag", message),))
    return int(match[1])


def check_if_match(expected: int | None, current: int) -> None:
    """Raise ConflictError where the writer has seen another version than the present one."""
    if expected is not None and expected != current:
        raise ConflictError(
            f"it has changed: you have version {expected}, the present one is {current}", current=current
        )


async def _if_match(header: Annotated[str | None, Header(alias="If-Match")] = None) -> int | None:
    return parse_if_match(header)


IfMatch = Annotated[int | None, Depends(_if_match)]
