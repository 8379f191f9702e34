"""`/v1/auth`: logins and the keys that tokens are verified with, passwords, users, groups."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response

from services.submitter.domain.answers import Answer
from services.submitter.handlers.accounts import AccountHandlers
from shared.auth.keys import KeySet
from shared.auth.tokens import IssuedToken
from shared.catalog import CatalogDocument, Group, User
from shared.catalog.access import groups_of
from shared.catalog.fields import Password
from shared.documents import Document, must_parse
from shared.events import Time
from shared.http.answers import PageQuery, entries_answer, entry_answer, json_answer
from shared.http.etag import IfMatch
from shared.http.routing import CurrentUser, api_router
from shared.units import KIB

_LOGIN_MAX_BYTES = 16 * KIB


class LoginRequest(Document):
    """Who logs in."""

    username: str = Field(description="a user name")
    password: str = Field(description="the password of the user")


class PasswordChange(Document):
    """A new password for the one who asks."""

    current: str = Field(description="the present password")
    new: Password = Field(description="a password of 12 to 256 characters")


class LoginAnswer(Answer):
    """A token and its end."""

    token: str
    expires_at: Time


class Me(Answer):
    """Whom the token speaks for."""

    id: str
    name: str
    admin: bool
    groups: list[str]


def login_router(handlers: AccountHandlers, keys: KeySet) -> APIRouter:
    """The routes that need no token."""
    router = api_router(public=True, max_body_bytes=_LOGIN_MAX_BYTES)

    @router.post("/v1/auth/login", response_model=LoginAnswer)
    async def login(request: Request, body: Annotated[Any, Body()]) -> Response:
        """Get a token for user name and password."""
        wanted = must_parse(LoginRequest, body)
        return _token_answer(await handlers.login(wanted.username, wanted.password, _client_of(request)))

    @router.get("/v1/auth/jwks")
    async def jwks() -> Response:
        """The public keys that tokens are signed with, as a JSON Web Key Set."""
        return JSONResponse(keys.jwks())

    return router


def accounts_router(handlers: AccountHandlers) -> APIRouter:
    """The routes about the one who asks, and users."""
    router = api_router()

    @router.get("/v1/auth/me", response_model=Me)
    async def me(user: CurrentUser) -> Response:
        """Whom the token speaks for."""
        groups = sorted(groups_of(user.name, handlers.watch.view))
        return json_answer(Me(id=user.user_id, name=user.name, admin=user.admin, groups=groups))

    @router.put("/v1/auth/password", response_model=LoginAnswer)
    async def change_password(user: CurrentUser, request: Request, body: Annotated[Any, Body()]) -> Response:
        """Change your own password; every token from before is taken back, the answer has a new one."""
        wanted = must_parse(PasswordChange, body)
        return _token_answer(await handlers.change_password(user, wanted.current, wanted.new, _client_of(request)))

    @router.put("/v1/auth/users/{name}")
    async def put_user(user: CurrentUser, name: str, document: Annotated[Any, Body()], if_match: IfMatch) -> Response:
        """Make or change a user."""
        written = await handlers.put_user(user, name, document, if_match)
        return entry_answer(written.entry, status=201 if written.created else 200)

    @router.delete("/v1/auth/users/{name}", status_code=204)
    async def delete_user(user: CurrentUser, name: str, if_match: IfMatch) -> Response:
        """Delete a user."""
        await handlers.delete_user(user, name, if_match)
        return Response(status_code=204)

    @router.put("/v1/auth/groups/{name}")
    async def put_group(user: CurrentUser, name: str, document: Annotated[Any, Body()], if_match: IfMatch) -> Response:
        """Make or change a group."""
        written = await handlers.put_group(user, name, document, if_match)
        return entry_answer(written.entry, status=201 if written.created else 200)

    @router.delete("/v1/auth/groups/{name}", status_code=204)
    async def delete_group(user: CurrentUser, name: str, if_match: IfMatch) -> Response:
        """Delete a group."""
        await handlers.delete_group(user, name, if_match)
        return Response(status_code=204)

    for kind in (User, Group):
        _add_reads(router, handlers, kind)
    return router


def _add_reads(router: APIRouter, handlers: AccountHandlers, kind: type[CatalogDocument]) -> None:
    """List and detail of a kind."""

    async def list_all(user: CurrentUser, query: PageQuery) -> Response:
        return entries_answer(await handlers.all(user, kind), query)

    async def get_one(user: CurrentUser, name: str) -> Response:
        return entry_answer(await handlers.get(user, kind, name))

    path = f"/v1/auth/{kind.plural()}"
    router.get(path, name=f"list_{kind.plural()}")(list_all)
    router.get(path + "/{name}", name=f"get_{kind.SINGULAR}")(get_one)


def _token_answer(issued: IssuedToken) -> Response:
    return json_answer(LoginAnswer(token=issued.token, expires_at=issued.claims.expires_at))


def _client_of(request: Request) -> str:
    return request.client.host if request.client else ""
