"""The root of every error that Trainmaster raises, and how an error becomes a problem document.

An error class carries its data in fields and a stable `code`. `Problem` is the RFC 9457 shape of one error; the HTTP
factory turns any `TrainmasterError` into a response through `status_of`, the one place where codes meet HTTP
statuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final


class TrainmasterError(Exception):
    """Root of all errors; `code` is stable public API, `message` says what is wrong and what would be right."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with an input: where (RFC 6901 JSON pointer), a stable code, a sentence."""

    pointer: str
    code: str
    message: str


class InvalidInputError(TrainmasterError):
    """The input is understood but not acceptable; carries every violation found, not only the first."""

    code = "invalid-input"

    def __init__(self, violations: tuple[Violation, ...], message: str = "") -> None:
        super().__init__(message or "; ".join(f"{v.pointer or '/'}: {v.message}" for v in violations))
        self.violations = violations


class NotFoundError(TrainmasterError):
    """There is no such thing, or the asker may not know of it."""

    code = "not-found"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} {name!r}, or you may not see it")
        self.kind = kind
        self.name = name


class ForbiddenError(TrainmasterError):
    """The asker is known and may not do this."""

    code = "forbidden"


class UnauthenticatedError(TrainmasterError):
    """No valid token came with the request."""

    code = "unauthenticated"


class ConflictError(TrainmasterError):
    """The thing has changed or exists already; `current` is its present version where there is one."""

    code = "conflict"

    def __init__(self, message: str, *, current: int | None = None) -> None:
        super().__init__(message)
        self.current = current


class TooLargeError(TrainmasterError):
    """The input passes a size limit."""

    code = "too-large"


class MalformedError(TrainmasterError):
    """The bytes sent are not what they claim to be: no JSON, no UTF-8, a key twice."""

    code = "malformed"


class UnsupportedMediaTypeError(TrainmasterError):
    """The body came with a content type that is not taken here."""

    code = "unsupported-media-type"


class TooManyRequestsError(TrainmasterError):
    """The asker has to wait `retry_after_s` seconds before the same call is looked at again."""

    code = "too-many-requests"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnavailableError(TrainmasterError):
    """A part that is needed is away; the same call may succeed later."""

    code = "unavailable"


STATUS_OF_CODE: Final[dict[str, int]] = {
    "invalid-input": 422,
    "malformed": 400,
    "not-found": 404,
    "method-not-allowed": 405,
    "forbidden": 403,
    "unauthenticated": 401,
    "conflict": 409,
    "too-large": 413,
    "unsupported-media-type": 415,
    "too-many-requests": 429,
    "unavailable": 503,
    "internal": 500,
}


def status_of(error: TrainmasterError) -> int:
    """HTTP status of an error, by its code."""
    return STATUS_OF_CODE.get(error.code, 500)


@dataclass(frozen=True, slots=True)
class Problem:
    """RFC 9457 problem details; `errors` lists violations where the input is at fault."""

    code: str
    status: int
    title: str
    detail: str
    errors: tuple[Violation, ...] = field(default=())

    @property
    def type(self) -> str:
        """Stable type URI of the problem."""
        return f"urn:trainmaster:problem:{self.code}"


def problem_of(error: TrainmasterError) -> Problem:
    """Problem document of an error; internal messages are not shown."""
    status = status_of(error)
    detail = error.message if status != STATUS_OF_CODE["internal"] else "the service failed; its log has the request id"
    violations = error.violations if isinstance(error, InvalidInputError) else ()
    return Problem(error.code, status, error.code.replace("-", " "), detail, violations)
