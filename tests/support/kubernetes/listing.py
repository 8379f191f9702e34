"""Lists: all at once, or by pages that all show the same revision."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, replace

from tests.support.kubernetes.errors import bad_request, expired
from tests.support.kubernetes.resources import Json, Resource
from tests.support.kubernetes.selectors import Selector
from tests.support.kubernetes.store import Store


@dataclass(frozen=True)
class _Place:
    """Where a page begins: in which kept snapshot, of which revision."""

    revision: int
    snapshot: int
    start: int


def listed(store: Store, resource: Resource, selector: Selector, limit: int, token: str) -> Json:
    """The list, or the page of it that the token leads to."""
    if token:
        place = _place(token)
        items = _kept(store, place)
    else:
        items = [each for each in store.items(resource) if selector.matches(each)]
        paged = 0 < limit < len(items)
        place = _Place(store.revision, store.keep_snapshot(items) if paged else 0, 0)
    end = min(place.start + limit, len(items)) if limit else len(items)
    metadata: Json = {"resourceVersion": str(place.revision)}
    if end < len(items):
        metadata |= {"continue": _token(replace(place, start=end)), "remainingItemCount": len(items) - end}
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": [_bare(resource, each) for each in items[place.start : end]],
    }


def _bare(resource: Resource, item: Json) -> Json:
    """Members of a list of built-in objects do not say their kind; those of custom ones do."""
    if resource.group.endswith(".volcano.sh"):
        return item
    return {key: value for key, value in item.items() if key not in {"kind", "apiVersion"}}


def _kept(store: Store, place: _Place) -> list[Json]:
    items = store.snapshot(place.snapshot)
    if items is None:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter."
        )
    return items


def _token(place: _Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(asdict(place)).encode()).decode()


def _place(token: str) -> _Place:
    try:
        return _Place(**json.loads(base64.urlsafe_b64decode(token)))
    except (ValueError, TypeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
