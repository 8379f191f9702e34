"""`/v1/tensorboard`: open a TensorBoard on jobs, and everything below its address as TensorBoard itself answers.

The routes of a board take a bearer token, or the cookie that a browser gets for a ticket; see
`services.logs.tensorboard.sessions`.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from services.logs.tensorboard.boards import Run
from services.logs.tensorboard.handlers import BoardHandlers, Opened
from services.logs.tensorboard.servers import Board
from services.logs.tensorboard.sessions import SESSION_LIFE, TICKET_LIFE
from shared.clock import rfc3339
from shared.http.routing import CurrentUser, api_router
from shared.units import MIB

COOKIE: Final = "tm-tensorboard"
JOBS_MAX: Final = 20
BODY_MAX_BYTES: Final = 8 * MIB

BoardId = Annotated[str, Path(pattern=r"^tb-[a-z2-7]{20}$")]


class OpenBoard(BaseModel):
    """What a TensorBoard is to show."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[Annotated[str, Field(min_length=1, max_length=128)]] = Field(
        min_length=1, max_length=JOBS_MAX, description="names or ids of jobs, shown side by side"
    )
    attempts: list[Annotated[int, Field(ge=1)]] = Field([], max_length=100, description="default: all attempts")
    dir: str | None = Field(
        None, pattern="^/", max_length=4096, description="a directory on a mount of the job instead of what it shipped"
    )


class ShownRun(BaseModel):
    """A run as TensorBoard calls it."""

    name: str
    job: str
    attempt: int

    @classmethod
    def of(cls, run: Run) -> ShownRun:
        return cls(name=run.name, job=run.job, attempt=run.attempt)


class OpenedBoard(BaseModel):
    """A TensorBoard that answers."""

    id: str
    url: str = Field(description="its address, for requests with a bearer token")
    ticket: str = Field(description="the same for a browser: good once, for as long as expiresIn says")
    expires_in: int = Field(alias="expiresIn", description="seconds")
    runs: list[ShownRun] = Field(description="what there is to see now; more may come")

    @classmethod
    def of(cls, opened: Opened) -> OpenedBoard:
        url = f"{opened.board.spec.prefix}/"
        return cls(
            id=opened.board.spec.id,
            url=url,
            ticket=f"{url}?ticket={opened.ticket}",
            expiresIn=int(TICKET_LIFE.total_seconds()),
            runs=[ShownRun.of(run) for run in opened.runs],
        )


class RunningBoard(BaseModel):
    """A TensorBoard in the list."""

    id: str
    url: str
    jobs: list[str]
    dir: str | None
    last_used: str = Field(alias="lastUsed")

    @classmethod
    def of(cls, board: Board) -> RunningBoard:
        spec = board.spec
        used = rfc3339(board.last_used)
        return cls(id=spec.id, url=f"{spec.prefix}/", jobs=list(spec.jobs), dir=spec.directory, lastUsed=used)


class RunningBoards(BaseModel):
    """All that run."""

    items: list[RunningBoard]


def boards_router(handlers: BoardHandlers) -> APIRouter:
    """The routes that open, list and stop."""
    router = api_router()

    @router.post("/v1/tensorboard", tags=["tensorboard"], response_model=OpenedBoard)
    async def open_board(_user: CurrentUser, body: OpenBoard, request: Request) -> OpenedBoard:
        """Open a TensorBoard on the records of jobs; the same jobs give the same one."""
        token = _bearer(request) or ""
        return OpenedBoard.of(await handlers.open(token, body.jobs, frozenset(body.attempts), body.dir))

    @router.get("/v1/tensorboard", tags=["tensorboard"], response_model=RunningBoards)
    async def list_boards(user: CurrentUser) -> RunningBoards:
        """The TensorBoards that run on jobs that you may see."""
        return RunningBoards(items=[RunningBoard.of(board) for board in await handlers.list(user)])

    @router.delete("/v1/tensorboard/{board}", tags=["tensorboard"], status_code=204)
    async def stop_board(user: CurrentUser, board: BoardId) -> Response:
        """Stop a TensorBoard before it stops by itself."""
        await handlers.stop(user, board)
        return Response(status_code=204)

    return router


def board_pages_router(handlers: BoardHandlers) -> APIRouter:
    """What TensorBoard answers; the handler looks at tokens and cookies itself."""
    router = api_router(public=True, max_body_bytes=BODY_MAX_BYTES)

    @router.get("/v1/tensorboard/{board}", tags=["tensorboard"], response_class=Response)
    async def without_slash(board: BoardId) -> Response:
        """To the page itself."""
        return RedirectResponse(f"/v1/tensorboard/{board}/", 307)

    @router.api_route(
        "/v1/tensorboard/{board}/{path:path}",
        methods=["GET", "HEAD", "POST"],
        tags=["tensorboard"],
        response_class=Response,
        include_in_schema=False,
    )
    async def page(request: Request, board: BoardId, path: str) -> Response:  # noqa: ARG001  # the path goes on as it came
        """A page of TensorBoard; with `?ticket=` the browser's way in."""
        ticket = request.query_params.get("ticket")
        if ticket is not None:
            return _entered(request, board, handlers.enter(board, ticket))
        return await handlers.passed_on(request, board, request.cookies.get(COOKIE), _bearer(request))

    return router


def _entered(request: Request, board: str, secret: str) -> Response:
    """The cookie, and to the page without the ticket in its address."""
    answer = RedirectResponse(f"/v1/tensorboard/{board}/", 303)
    answer.set_cookie(
        COOKIE,
        secret,
        max_age=int(SESSION_LIFE.total_seconds()),
        path=f"/v1/tensorboard/{board}/",
        secure=request.headers.get("x-forwarded-proto", request.url.scheme) == "https",
        httponly=True,
        samesite="lax",
    )
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


def _bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
