"""What the logs service does for those who want a TensorBoard: open, list, stop, let a browser in, pass requests on.

Each request to a board asks anew whether its sender may see the board's jobs; the answer holds for some seconds, for a
page makes many requests. A board that was stopped because nobody looked is started again by the next request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from services.logs.adapters.jobs import Jobs
from services.logs.adapters.layout import Layout
from services.logs.tensorboard.boards import DIRECTORY_RUN, BoardSpec, Root, Run, runs_of
from services.logs.tensorboard.mounts import MountPath, mount_path, place_on_machine
from services.logs.tensorboard.objects import ObjectRecords, is_in_objects
from services.logs.tensorboard.proxy import forward
from services.logs.tensorboard.sandbox import Bind
from services.logs.tensorboard.servers import Board, Boards, Shown
from services.logs.tensorboard.sessions import Sessions
from shared.auth.principal import Principal
from shared.clock import Clock
from shared.errors import (
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
    Violation,
)
from shared.http.routing import Authenticator
from shared.jobs import Job, Recorded

_SEEN_HOLDS: Final = timedelta(seconds=5)
_SEEN_MAX: Final = 1000
NOT_INSTALLED: Final = (
    "TensorBoard is not installed beside the platform; whoever runs it can install it: pip install tensorboard "
    "(in a clone: pip install -e '.[tensorboard]'). Curves can be seen without it: trainmaster metrics JOB"
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A board that answers, a ticket for a browser, and the runs that it shows now."""

    board: Board
    ticket: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    jobs: tuple[Job, ...]
    until: datetime


@dataclass(slots=True)
class BoardHandlers:
    """The use cases; `home` is the platform's, and must never be shown."""

    boards: Boards
    sessions: Sessions
    jobs: Jobs
    layout: Layout
    objects: ObjectRecords
    auth: Authenticator
    clock: Clock
    home: Path
    seen: dict[tuple[str, bool, str], _Seen] = field(default_factory=dict)

    async def open(
        self, token: str, references: Sequence[str], attempts: frozenset[int], directory: str | None
    ) -> Opened:
        """A board on these jobs; raises NotFoundError, InvalidInputError, UnavailableError and others."""
        principal = self.auth.authenticate(token)
        found = {job.id: job for job in [await self.jobs.find(principal, each) for each in references]}
        spec = BoardSpec(tuple(sorted(found)), attempts, _normal(directory))
        jobs = tuple(found[job] for job in spec.jobs)
        _check(principal, spec, jobs)
        if importlib.util.find_spec("tensorboard") is None:
            raise UnavailableError(NOT_INSTALLED)
        board = await self._start(spec, jobs)
        runs = await asyncio.to_thread(self._runs, spec, jobs)
        return Opened(board, self.sessions.ticket(spec, token, self.clock.now()), runs)

    async def list(self, principal: Principal) -> list[Board]:
        """The boards that run and whose jobs the asker may see."""
        visible = []
        for board in self.boards.running:
            try:
                await self._visible(principal, board.spec)
            except (NotFoundError, ForbiddenError):
                continue
            visible.append(board)
        return visible

    async def stop(self, principal: Principal, board_id: str) -> None:
        """End a board; raises NotFoundError."""
        board = self._running(board_id)
        await self._visible(principal, board.spec)
        await self.boards.stop(board_id)

    def enter(self, board_id: str, ticket: str) -> str:
        """The secret for a cookie; raises UnauthenticatedError."""
        secret = self.sessions.redeem(ticket, board_id, self.clock.now())
        if secret is None:
            raise UnauthenticatedError("the ticket was used or has expired; get another: trainmaster tensorboard JOB")
        return secret

    async def passed_on(self, request: Request, board_id: str, secret: str | None, token: str | None) -> Response:
        """The board's answer to a request with a cookie or a bearer token."""
        session = self.sessions.find(secret, board_id, self.clock.now()) if secret else None
        if session is not None:
            principal, spec = self.auth.authenticate(session.token), session.board
        elif token is not None:
            principal = self.auth.authenticate(token)
            spec = self._running(board_id).spec
        else:
            raise UnauthenticatedError("open this TensorBoard anew: trainmaster tensorboard JOB")
        jobs = await self._visible(principal, spec)
        board = self.boards.find(board_id) or await self._start(spec, jobs)
        return await forward(board.client, request)

    async def on_deleted(self, recorded: Recorded) -> None:
        """End the boards that show a job which was deleted."""
        for board in [each for each in self.boards.running if recorded.event.subject in each.spec.jobs]:
            await self.boards.stop(board.spec.id)

    def _running(self, board_id: str) -> Board:
        found = self.boards.find(board_id)
        if found is None:
            raise NotFoundError("TensorBoard", board_id)
        return found

    async def _visible(self, principal: Principal, spec: BoardSpec) -> tuple[Job, ...]:
        """The board's jobs; raises NotFoundError where one of them may not be seen (any more)."""
        now, key = self.clock.now(), (principal.user_id, principal.admin, spec.id)
        known = self.seen.get(key)
        if known is not None and known.until > now:
            return known.jobs
        jobs = tuple([await self.jobs.find(principal, job) for job in spec.jobs])
        _check(principal, spec, jobs)
        if len(self.seen) >= _SEEN_MAX:
            self.seen.clear()
        self.seen[key] = _Seen(jobs, now + _SEEN_HOLDS)
        await self._refresh(spec, jobs)
        return jobs

    async def _refresh(self, spec: BoardSpec, jobs: tuple[Job, ...]) -> None:
        """Show attempts that came since."""
        board = self.boards.find(spec.id)
        if board is not None:
            shown = await asyncio.to_thread(self._shown, spec, jobs)
            await asyncio.to_thread(board.show, shown.links)

    async def _start(self, spec: BoardSpec, jobs: tuple[Job, ...]) -> Board:
        shown = await asyncio.to_thread(self._shown, spec, jobs)
        return await self.boards.open(spec, shown)

    def _runs(self, spec: BoardSpec, jobs: tuple[Job, ...]) -> tuple[Run, ...]:
        if spec.directory is not None:
            return (Run(DIRECTORY_RUN, jobs[0].id, jobs[0].attempt.number, Path(spec.directory)),)
        roots = {job.id: [Root(*each) for each in self.layout.event_roots(job.id)] for job in jobs}
        return runs_of(jobs, spec.attempts, roots)

    def _shown(self, spec: BoardSpec, jobs: tuple[Job, ...]) -> Shown:
        if spec.directory is not None:
            return self._shown_directory(spec, mount_path(jobs[0], spec.directory))
        runs = self._runs(spec, jobs)
        if not self.boards.sandboxed:
            return Shown((), {run.name: str(run.path) for run in runs})
        binds = []
        for job in spec.jobs:
            stored = self.layout.job(job)
            stored.mkdir(parents=True, exist_ok=True, mode=0o700)
            binds.append(Bind(stored, f"/records/{job}"))
        inner = {run.name: f"/records/{run.path.relative_to(self.layout.job(run.job).parent)}" for run in runs}
        return Shown(tuple(binds), inner)

    def _shown_directory(self, spec: BoardSpec, path: MountPath) -> Shown:
        if is_in_objects(path):
            self.objects.forget_unused(board.spec.id for board in self.boards.running)
            fetched = self.objects.bring(spec.id, path)
            if not self.boards.sandboxed:
                return Shown((), {DIRECTORY_RUN: str(fetched)})
            return Shown((Bind(fetched, "/mount"),), {DIRECTORY_RUN: "/mount"})
        if not self.boards.sandboxed:
            raise UnavailableError(
                "a directory on a mount is shown only where bubblewrap works, which keeps links on it from leading "
                "elsewhere; whoever runs the platform can install it: apt-get install bubblewrap"
            )
        place = place_on_machine(path, self.home)
        return Shown((Bind(place.root, "/mount"),), {DIRECTORY_RUN: f"/mount/{place.below}"})


def _normal(directory: str | None) -> str | None:
    return os.path.normpath(directory) if directory is not None else None


def _check(principal: Principal, spec: BoardSpec, jobs: Sequence[Job]) -> None:
    if spec.directory is None:
        return
    if len(jobs) != 1:
        raise InvalidInputError((Violation("/dir", "one-job-only", "a directory goes with one job"),))
    if not principal.admin and jobs[0].owner != principal.user_id:
        raise ForbiddenError("only the owner of a job and admins may choose a directory on its mounts")
