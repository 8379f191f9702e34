"""Who gets to a board, for how long, and what is asked again; with a small server in TensorBoard's place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
from starlette.requests import Request

from services.logs.adapters.layout import Layout
from services.logs.tensorboard.handlers import BoardHandlers, Opened
from services.logs.tensorboard.objects import ObjectRecords
from services.logs.tensorboard.servers import Boards, Limits
from services.logs.tensorboard.sessions import Sessions
from shared import events as ev
from shared.auth.principal import Principal
from shared.clock import ManualClock
from shared.errors import ForbiddenError, NotFoundError, UnauthenticatedError, UnavailableError
from shared.ids import UserId
from shared.jobs import Job, Recorded
from tests.support.jobs import event, job_after
from tests.unit.services.logs.tensorboard.test_servers import Stub

ADA = Principal(UserId("u-ada"), "ada")
BOB = Principal(UserId("u-bob"), "bob")  # a member of the job's project


class Tokens:
    """A token is a user's name, as long as nobody revokes it."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    def authenticate(self, token: str) -> Principal:
        known = {"ada": ADA, "bob": BOB}
        if token in self.revoked or token not in known:
            raise UnauthenticatedError("no such token")
        return known[token]


class OneJob:
    """One job, for those who may see it."""

    def __init__(self) -> None:
        job, mount = job_after(), ev.ResolvedMount(mount_path="/mnt/data", type="storage", source="d", uri="file:///d")
        resolved = job.submitted.resolved.model_copy(update={"mounts": (mount,)})
        self.job = job.model_copy(update={"submitted": job.submitted.model_copy(update={"resolved": resolved})})
        self.seen_by = {ADA.user_id, BOB.user_id}
        self.asked = 0

    async def find(self, principal: Principal, reference: str) -> Job:
        self.asked += 1
        if principal.user_id not in self.seen_by or reference not in (self.job.id, self.job.name):
            raise NotFoundError("job", reference)
        return self.job

    async def reload(self, job: Job) -> Job | None:
        return job


class Desk:
    """The handlers with everything around them."""

    def __init__(self, directory: Path) -> None:
        self.clock, self.tokens, self.jobs = ManualClock(), Tokens(), OneJob()
        secrets = count(1)
        self.boards = Boards(directory / "boards", Stub, Limits(boards=2, idle_s=600), self.clock)
        self.handlers = BoardHandlers(
            self.boards,
            Sessions(lambda: f"secret-{next(secrets)}"),
            self.jobs,
            Layout(directory / "store"),
            ObjectRecords(directory / "records", None, self.clock),
            self.tokens,
            self.clock,
            directory / "home",
        )

    async def open(self, who: str = "ada", directory: str | None = None) -> Opened:
        return await self.handlers.open(who, [self.jobs.job.name], frozenset(), directory)

    async def enter(self, who: str = "ada") -> tuple[str, str]:
        opened = await self.open(who)
        return opened.board.spec.id, self.handlers.enter(opened.board.spec.id, opened.ticket)

    async def get(self, board: str, secret: str | None = None, token: str | None = None) -> int:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"cookie", b"x=y")]}
        answer = await self.handlers.passed_on(Request(scope, receive), board, secret, token)
        body = [piece async for piece in answer.body_iterator]
        assert body is not None
        return answer.status_code


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    found = Desk(tmp_path)
    yield found
    await found.boards.close()


async def test_a_session_revives_a_board_that_was_stopped_and_a_bare_token_does_not(desk: Desk):
    board, secret = await desk.enter()
    assert await desk.get(board, secret) == 200
    assert await desk.get(board, token="ada") == 200
    await desk.boards.stop(board)
    with pytest.raises(NotFoundError):
        await desk.get(board, token="ada")
    assert await desk.get(board, secret) == 200
    assert len(desk.boards.running) == 1


async def test_a_session_ends_with_its_token(desk: Desk):
    board, secret = await desk.enter()
    desk.tokens.revoked.add("ada")
    with pytest.raises(UnauthenticatedError):
        await desk.get(board, secret)


async def test_who_may_not_see_the_job_any_more_is_out_within_seconds(desk: Desk):
    board, secret = await desk.enter("bob")
    assert await desk.get(board, secret) == 200
    asked = desk.jobs.asked
    assert await desk.get(board, secret) == 200
    assert desk.jobs.asked == asked
    desk.jobs.seen_by.remove(BOB.user_id)
    await desk.clock.advance(6)
    with pytest.raises(NotFoundError):
        await desk.get(board, secret)
    assert await desk.handlers.list(BOB) == []
    assert len(await desk.handlers.list(ADA)) == 1


async def test_nothing_is_shown_without_a_session_or_a_token(desk: Desk):
    board, _ = await desk.enter()
    for secret in (None, "made-up"):
        with pytest.raises(UnauthenticatedError):
            await desk.get(board, secret)


async def test_a_directory_is_for_the_owner_and_only_in_a_sandbox(desk: Desk):
    with pytest.raises(ForbiddenError, match="only the owner"):
        await desk.open("bob", "/mnt/data")
    with pytest.raises(UnavailableError, match="bubblewrap"):
        await desk.open("ada", "/mnt/data")


async def test_a_deleted_job_takes_its_boards_with_it(desk: Desk):
    await desk.enter()
    fact = event(ev.Deleted(by="ada"), desk.jobs.job.id)
    await desk.handlers.on_deleted(Recorded(9, ev.subject_of(fact), event(ev.Deleted(by="ada"), "tj-other")))
    assert len(desk.boards.running) == 1
    await desk.handlers.on_deleted(Recorded(9, ev.subject_of(fact), fact))
    assert desk.boards.running == []
