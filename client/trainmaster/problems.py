"""Problem documents (RFC 9457) become the errors of `trainmaster.errors`.

They come as the body of a refused request, and as the last event of a stream that failed.
"""

from __future__ import annotations

from typing import Any, Final

from trainmaster.decoding import Fields
from trainmaster.errors import ApiError, Problem, Violation, api_error

SERVER_ERROR: Final = 500


def error_of(document: Any, *, status: int = SERVER_ERROR, title: str = "", request_id: str = "") -> ApiError:
    """The error that a problem document describes; the arguments stand in for what it leaves out."""
    fields = Fields.of(document)
    problem = Problem(
        status=fields.integer("status", status),
        code=fields.text("code", "unknown"),
        title=fields.text("title", title),
        detail=fields.text("detail"),
        request_id=fields.text("request_id", request_id),
        violations=tuple(_violation(error) for error in fields.each("errors")),
    )
    return api_error(problem)


def _violation(fields: Fields) -> Violation:
    return Violation(fields.text("pointer"), fields.text("code"), fields.text("message"))
