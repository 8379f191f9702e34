"""Everything that can go wrong in the client, under one root, and the exit code that the command ends with for each.

`ApiError` and its subclasses are answers of the platform (RFC 9457 problem documents); which subclass is decided by the
HTTP status. The others are found on this side: a file that is no YAML, a folder that cannot be packed, no connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final


class ExitCode(IntEnum):
    """What the command's exit code says; public API, documented in docs/cli.md."""

    OK = 0
    JOB_FAILED = 1
    NOTHING_FOUND = 1
    NODE_NOT_GREEN = 1
    INVALID = 2
    AUTH = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    CONFLICT = 6
    JOB_STOPPED = 7
    UNEXPECTED = 8
    USAGE_DIFFERS = 9
    NODE_NOT_TESTED = 10
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class TrainmasterError(Exception):
    """Root of all errors; the message says what is wrong and what would be right."""

    exit_code: ClassVar[ExitCode] = ExitCode.UNEXPECTED

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# --- found on this side ----------------------------------------------------------------------------------------------


class InputError(TrainmasterError):
    """An argument or a document that cannot be used; nothing was sent."""

    exit_code = ExitCode.INVALID


class PackingError(TrainmasterError):
    """A code folder that cannot be packed."""

    exit_code = ExitCode.INVALID


class NotLoggedInError(TrainmasterError):
    """There is no token for this platform."""

    exit_code = ExitCode.AUTH


class UnreachableError(TrainmasterError):
    """The platform gives no answer."""

    exit_code = ExitCode.UNREACHABLE


class UnexpectedAnswerError(TrainmasterError):
    """The platform's answer is not what its API promises; perhaps something else listens at this address."""


# --- told by the platform --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with an input: where (RFC 6901 JSON pointer), a stable code, a sentence."""

    pointer: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document as the platform sent it."""

    status: int
    code: str
    title: str
    detail: str
    request_id: str = ""
    violations: tuple[Violation, ...] = ()


class ApiError(TrainmasterError):
    """The platform refused or failed; `problem` is what it said."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem


class InvalidInputError(ApiError):
    """The platform does not accept the input; `problem.violations` names every fault."""

    exit_code = ExitCode.INVALID


class UnauthenticatedError(ApiError):
    """The token is missing, wrong or too old."""

    exit_code = ExitCode.AUTH


class ForbiddenError(ApiError):
    """The user may not do this."""

    exit_code = ExitCode.AUTH


class NotFoundError(ApiError):
    """There is no such thing, or the user may not see it."""

    exit_code = ExitCode.NOT_FOUND


class ConflictError(ApiError):
    """It exists already, or its state does not allow this."""

    exit_code = ExitCode.CONFLICT


class UnavailableError(ApiError):
    """The platform is there but cannot serve this now; the same call may succeed later."""

    exit_code = ExitCode.UNREACHABLE


_ERROR_OF_STATUS: Final[dict[int, type[ApiError]]] = {
    400: InvalidInputError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: ConflictError,
    413: InvalidInputError,
    415: InvalidInputError,
    422: InvalidInputError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def api_error(problem: Problem) -> ApiError:
    """The error that a problem document is, by its HTTP status."""
    return _ERROR_OF_STATUS.get(problem.status, ApiError)(problem)
