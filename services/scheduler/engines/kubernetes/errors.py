"""What the answers of an API server mean for whoever asked."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from shared.kubernetes.access import ApiError

_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
# Quotas, Pod Security and other admission name no user.
_DENIED: Final = re.compile(r'forbidden: User ".*" cannot [a-z]+ resource ')
_TOO_LARGE: Final = re.compile(r"request is too large|message larger than max")
_BUSY: Final = frozenset(
    {
        *(HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR),
        *(HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT),
    }
)


def is_missing(error: ApiError) -> bool:
    """There is no such object, or there is none any more."""
    return error.status == HTTPStatus.NOT_FOUND


def is_conflict(error: ApiError) -> bool:
    """It exists already, or is not what the request thought that it was."""
    return error.status == HTTPStatus.CONFLICT


def is_busy(error: ApiError) -> bool:
    """The same request may succeed in a moment."""
    return (error.status in _BUSY and not _is_too_large(error)) or _is_too_early(error)


def is_final(error: ApiError) -> bool:
    """The same request would be refused again: it breaks a rule, is too large, not well formed, or over a quota."""
    passes = _is_too_early(error) or is_denied(error)
    is_unfit = error.status == HTTPStatus.UNPROCESSABLE_ENTITY or _is_too_large(error)
    return is_unfit or (error.status in _REFUSED and not passes)


def is_denied(error: ApiError) -> bool:
    """Whoever asks has no right to, whatever is asked for: a matter of who runs the cluster, and of no job."""
    return error.status == HTTPStatus.FORBIDDEN and _DENIED.search(error.said) is not None


def _is_too_large(error: ApiError) -> bool:
    """For etcd, which takes half of what the API server takes, and whose refusal that one tells as an error."""
    return error.status == HTTPStatus.INTERNAL_SERVER_ERROR and _TOO_LARGE.search(error.said) is not None


def _is_too_early(error: ApiError) -> bool:
    """A namespace was made a moment ago, and its service account will be there in the next."""
    return error.status == HTTPStatus.FORBIDDEN and "serviceaccount" in error.said and "not found" in error.said
