"""What happens to a request between its route and its handler: who asks, how much may be read, is it strict JSON.

Routers come from `api_router`. Everything they hold asks for a bearer token unless the router says `public=True`, so a
forgotten line denies instead of allowing; `create_app` refuses routes of any other kind. The order is fixed: token,
size, content type, JSON, FastAPI's validation, handler. Nothing of a body is read for somebody unknown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Protocol

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shared.auth.principal import Principal
from shared.errors import TooLargeError, TrainmasterError, UnauthenticatedError, UnsupportedMediaTypeError
from shared.http import strict_json
from shared.units import MIB, format_bytes

DEFAULT_MAX_BODY_BYTES: Final = MIB

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Authenticator(Protocol):
    """Knows whose token it is."""

    def authenticate(self, token: str) -> Principal:
        """The principal of a valid token; raises UnauthenticatedError with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """What the routes of one router ask of a request."""

    public: bool = False
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES


class BoundedRequest(Request):
    """A request whose body ends with an error where it passes the limit, and whose JSON is read strictly."""

    max_body_bytes: int

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces; raises TooLargeError before a piece that passes the limit is handed out."""
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self.max_body_bytes:
            raise self._too_large()
        size_bytes = 0
        async for chunk in super().stream():
            size_bytes += len(chunk)
            if size_bytes > self.max_body_bytes:
                raise self._too_large()
            yield chunk

    async def json(self) -> Any:
        """The body as strict JSON."""
        return strict_json.parse(await self.body())

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"the body passes {format_bytes(self.max_body_bytes)}, the most that is taken here")


class ApiRoute(APIRoute):
    """A route that applies its router's policy first; the only kind of route that `create_app` takes."""

    policy: ClassVar[RoutePolicy] = RoutePolicy()

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["responses"] = {"default": PROBLEM_RESPONSE, **(options.get("responses") or {})}
        if not self.policy.public:
            options["openapi_extra"] = {"security": [{"bearer": []}], **(options.get("openapi_extra") or {})}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        """FastAPI's handler behind the policy."""
        handle, policy, wants_json = super().get_route_handler(), self.policy, self.body_field is not None

        async def guarded(request: Request) -> Response:
            if not policy.public:
                request.state.principal = authenticated(request)
            bounded = BoundedRequest(request.scope, request.receive)
            bounded.max_body_bytes = policy.max_body_bytes
            if wants_json:
                _check_content_type(bounded)
            return await _unwrapped(handle(bounded))

        return guarded


PROBLEM_RESPONSE: Final[dict[str, Any]] = {
    "description": "Anything that went wrong, as a problem document (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def api_router(*, public: bool = False, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES) -> APIRouter:
    """A router for `create_app`; write whole paths in it (`/v1/jobs/{job}`)."""
    policy = RoutePolicy(public=public, max_body_bytes=max_body_bytes)
    return APIRouter(route_class=type("PolicedRoute", (ApiRoute,), {"policy": policy}))


def authenticated(request: Request) -> Principal:
    """Who asks, by the Authorization header; the application's authenticator decides."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise UnauthenticatedError("send a token as 'Authorization: Bearer <token>'; 'trainmaster login' gets one")
    authenticator: Authenticator = request.app.state.auth
    return authenticator.authenticate(token.strip())


async def _current_principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


CurrentUser = Annotated[Principal, Depends(_current_principal)]


def _check_content_type(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if has_body and media_type != "application/json" and not media_type.endswith("+json"):
        sent = f"comes as {media_type[:80]}" if media_type else "has no content type"
        raise UnsupportedMediaTypeError(f"the body {sent}; send it as application/json")


async def _unwrapped(answer: Coroutine[Any, Any, Response]) -> Response:
    """FastAPI hides what a body reader raises behind a bare 400; bring the cause back."""
    try:
        return await answer
    except HTTPException as error:
        if isinstance(error.__cause__, TrainmasterError):
            raise error.__cause__ from None
        raise
