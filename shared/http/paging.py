"""Lists page by page: an opaque cursor says after which item the next page starts, never how many to skip.

A cursor is the sort key of the last item shown, as base64 of a JSON list. It is no secret and not signed: whoever makes
one up sees what they could have asked for anyway, or gets a violation.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from shared.errors import InvalidInputError, Violation

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
_MAX_CURSOR_CHARS: Final = 1024

Item = TypeVar("Item")
CursorKey = tuple[str | int, ...]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="most items to return")]
CursorText = Annotated[str | None, Query(alias="cursor", description="`next` of the page before")]


class Page(BaseModel, Generic[Item]):
    """One page of a list; `next` is the cursor of the following one, null on the last."""

    model_config = ConfigDict(frozen=True)

    items: list[Item]
    next: str | None = None


def page_of(found: Sequence[Item], limit: int, key: Callable[[Item], CursorKey]) -> Page[Item]:
    """A page from up to `limit + 1` items found: the one too many only tells that there is more."""
    shown = list(found[:limit])
    return Page(items=shown, next=encode_cursor(key(shown[-1])) if len(found) > limit else None)


def encode_cursor(key: CursorKey) -> str:
    """The cursor after an item with this sort key."""
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(text: str | None, *types: type[str | int]) -> CursorKey | None:
    """The sort key in a cursor whose parts have these types; None where there is no cursor."""
    if text is None:
        return None
    if len(text) > _MAX_CURSOR_CHARS:
        raise _bad_cursor()
    try:
        parts = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise _bad_cursor() from None
    if not isinstance(parts, list) or [type(part) for part in parts] != list(types):
        raise _bad_cursor()
    return tuple(parts)


def _bad_cursor() -> InvalidInputError:
    message = "this is no cursor of this list; send back the `next` of the page before, or leave it out"
    return InvalidInputError((Violation("/query/cursor", "bad-cursor", message),))
