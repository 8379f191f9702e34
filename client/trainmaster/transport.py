"""HTTP to the platform: one connection pool, problem documents turned into errors, short repeats of what is repeatable.

A request that is safe to repeat is tried three times where the platform answers "not now" or drops the connection; a
refused connection is not repeated, because nothing listens there and the user should hear so at once. Following a job
over a restart is the business of `sse`, which opens its streams here and has patience of its own.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx

from trainmaster import __version__
from trainmaster.decoding import Document
from trainmaster.errors import (
    ApiError,
    InputError,
    Problem,
    TrainmasterError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
    api_error,
)
from trainmaster.problems import error_of

Params = Mapping[str, str | int | tuple[str, ...] | None]

ATTEMPTS: Final = 3
FIRST_PAUSE_S: Final = 0.3
CONNECT_TIMEOUT_S: Final = 5.0
STREAM_SILENCE_S: Final = 45.0  # the platform sends a heartbeat every 15 s; three missed ones mean a dead connection
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Transport:
    """Requests to one platform in the name of one user."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout_s: float = 30.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = checked_url(url)
        self._pause = pause
        headers = {"User-Agent": f"trainmaster/{__version__}", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,  # a proxy cannot reach this machine's loopback
            verify=_trusted() if urlsplit(self.url).scheme == "https" else True,
        )

    def close(self) -> None:
        """Close all connections; streams that are being read end with an error."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        json: object = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> httpx.Response:
        """The platform's answer; raises ApiError for a refusal, UnreachableError where there is no answer."""
        for pause_s in self._pauses(repeatable=repeatable):
            try:
                response = self._http.request(
                    method, path, params=_given(params), json=json, content=content, headers=headers
                )
                return raised_for_problem(response)
            except (UnavailableError, httpx.TransportError) as error:
                if pause_s is None or not _may_pass(error):
                    raise self.explained(error) from error
                self._pause(pause_s)
        raise AssertionError("the last attempt either returns or raises")

    def document(self, method: str, path: str, **arguments: Any) -> Document:
        """The JSON object that the platform answers."""
        return json_object(self.request(method, path, **arguments))

    @contextlib.contextmanager
    def stream(
        self,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str],
        method: str = "GET",
        json: object = None,
    ) -> Iterator[httpx.Response]:
        """An open answer whose body is read while it arrives."""
        timeout = httpx.Timeout(STREAM_SILENCE_S, connect=CONNECT_TIMEOUT_S)
        try:
            asked = self._http.stream(method, path, params=_given(params), headers=headers, timeout=timeout, json=json)
            with asked as response:
                if response.is_error:
                    response.read()
                yield raised_for_problem(response)
        except httpx.TransportError as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> TrainmasterError:
        """The error in words for the user; one that already has them is left as it is."""
        if isinstance(error, TrainmasterError):
            return error
        if isinstance(error, httpx.ConnectError):
            if (reason := _tls_failure(error)) is not None:
                return UnreachableError(f"no TLS connection to {self.url}: {reason}")
            return UnreachableError(
                f"nothing answers at {self.url} ({error}); is the platform running? "
                "`trainmaster up` starts one on this machine, `trainmaster login -e URL` names another"
            )
        if isinstance(error, httpx.TimeoutException):
            return UnreachableError(f"{self.url} did not answer in time ({type(error).__name__})")
        return UnreachableError(f"the connection to {self.url} broke")

    def _pauses(self, *, repeatable: bool) -> list[float | None]:
        """How long to wait after each attempt that fails; None after the last."""
        if not repeatable:
            return [None]
        return [FIRST_PAUSE_S * 2**attempt for attempt in range(ATTEMPTS - 1)] + [None]


def quoted(name: str) -> str:
    """The name as one segment of a path; one made of dots alone would be taken for a relative path."""
    return "%2E" * len(name) if name.strip(".") == "" else quote(name, safe="", errors="surrogateescape")


def checked_url(url: str) -> str:
    """The platform's address without a trailing slash; raises InputError where it is none."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or parts.username is not None:
        raise InputError(f"{url!r} is no platform address; write it as in http://127.0.0.1:8080")
    return url.rstrip("/")


def raised_for_problem(response: httpx.Response) -> httpx.Response:
    """The response itself where it is a success; raises what the problem document says otherwise."""
    if response.is_success:
        return response
    if response.is_redirect:
        target = response.headers.get("Location", "elsewhere")
        raise UnexpectedAnswerError(f"{response.request.url} redirects to {target}; log in with the final address")
    raise _refusal(response)


def json_object(response: httpx.Response) -> Document:
    """The JSON object in a response; raises UnexpectedAnswerError where there is none."""
    value = json_value(response)
    if not isinstance(value, dict):
        raise UnexpectedAnswerError(f"{response.request.url} answered {type(value).__name__} where an object was due")
    return value


def json_value(response: httpx.Response) -> Any:
    """The JSON in a response."""
    try:
        return response.json()
    except ValueError as error:
        kind = response.headers.get("Content-Type", "no content type")
        raise UnexpectedAnswerError(
            f"{response.request.url} answered with {kind} that is no JSON; is this a Trainmaster platform's address?"
        ) from error


def _refusal(response: httpx.Response) -> ApiError:
    """What a refused request was answered; a gateway's own error page becomes a problem too."""
    status, reason = response.status_code, response.reason_phrase
    request_id = response.headers.get("X-Request-Id", "")
    try:
        return error_of(response.json(), status=status, title=reason, request_id=request_id)
    except (ValueError, UnexpectedAnswerError):
        detail = f"{response.request.url} answered {status} {reason}"
        return api_error(Problem(status, "unknown", reason, detail, request_id))


def _trusted() -> ssl.SSLContext:
    """The authorities that httpx comes with, or those of SSL_CERT_FILE, and those of this machine, as curl has them."""
    try:
        context = httpx.create_ssl_context()
    except OSError as error:
        raise InputError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
        ) from error
    context.load_default_certs()
    return context


def _tls_failure(error: BaseException | None) -> str | None:
    """What TLS failed of, in words for the user; None where the connection failed of something else."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); where an authority of your own made it, "
            "name a file with that authority's certificate in SSL_CERT_FILE"
        )
    return None if error is None else f"{error.reason or error}; does it speak https?"


def _may_pass(error: UnavailableError | httpx.TransportError) -> bool:
    """Whether the same request may succeed in a moment: not where nothing listens, nor where it came too often."""
    if isinstance(error, UnavailableError):
        return error.problem.status != httpx.codes.TOO_MANY_REQUESTS
    return not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _given(params: Params | None) -> dict[str, str | int | tuple[str, ...]]:
    return {name: value for name, value in (params or {}).items() if value is not None}
