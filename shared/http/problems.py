"""Every error as an RFC 9457 problem document.

`shared.errors` decides code and status; what comes from FastAPI and Starlette (a bad query value, an unknown path, a
wrong method) is first turned into that vocabulary here and in `shared.http.violations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from shared.errors import (
    STATUS_OF_CODE,
    ConflictError,
    InvalidInputError,
    Problem,
    TooManyRequestsError,
    TrainmasterError,
    problem_of,
)
from shared.http.violations import violations_of

MEDIA_TYPE: Final = "application/problem+json"
UNAVAILABLE_RETRY_S: Final = 1
_CODE_OF_STATUS: Final = {status: code for code, status in STATUS_OF_CODE.items()}


def install(app: FastAPI) -> None:
    """Let the application answer every error with a problem document."""
    app.add_exception_handler(TrainmasterError, _on_trainmaster_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


def request_id_of(scope: Mapping[str, Any]) -> str:
    """Id under which the log speaks of this request."""
    state: Mapping[str, Any] = scope.get("state", {})
    return str(state.get("request_id", ""))


def response_of(error: TrainmasterError, scope: Mapping[str, Any]) -> JSONResponse:
    """The response for one of our own errors, with the headers that belong to its status."""
    document = document_of(problem_of(error), request_id_of(scope))
    if isinstance(error, ConflictError) and error.current is not None:
        document["current"] = error.current
    return JSONResponse(document, problem_of(error).status, _headers_of(error), MEDIA_TYPE)


def document_of(problem: Problem, request_id: str) -> dict[str, Any]:
    """The JSON of a problem, keys in the order in which people read them."""
    errors = [{"pointer": v.pointer, "code": v.code, "message": v.message} for v in problem.errors]
    return {
        "type": problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "request_id": request_id,
        "errors": errors,
    }


def _headers_of(error: TrainmasterError) -> dict[str, str]:
    match error.code:
        case "unauthenticated":
            return {"WWW-Authenticate": "Bearer"}
        case "unavailable":
            return {"Retry-After": str(UNAVAILABLE_RETRY_S)}
    return {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyRequestsError) else {}


async def _on_trainmaster_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, TrainmasterError):
        raise error
    if problem_of(error).status == STATUS_OF_CODE["internal"]:
        structlog.get_logger().error("request_failed", code=error.code, exc_info=error)
    return response_of(error, request.scope)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    return response_of(InvalidInputError(violations_of(error.errors())), request.scope)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Starlette's own refusals: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    code = _CODE_OF_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "malformed")
    problem = Problem(code, error.status_code, code.replace("-", " "), _detail_of(error, request))
    return JSONResponse(
        document_of(problem, request_id_of(request.scope)), error.status_code, error.headers, MEDIA_TYPE
    )


def _detail_of(error: HTTPException, request: Request) -> str:
    match error.status_code:
        case 404:
            return f"there is nothing at {request.url.path[:200]}"
        case 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            return f"{request.method} is not offered at {request.url.path[:200]}; allowed: {allowed}"
    return error.detail


def internal_problem() -> Problem:
    """What the world is told about an error that nobody expected."""
    return replace(problem_of(TrainmasterError("")), title="internal error")
