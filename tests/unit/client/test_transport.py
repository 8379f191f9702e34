from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_json, problem
from trainmaster.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InputError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
    Violation,
)
from trainmaster.transport import Transport, checked_url


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def transport(platform: FakePlatform, pauses: list[float]) -> Iterator[Transport]:
    made = Transport(platform.url, "token-1", pause=pauses.append)
    yield made
    made.close()


class TestAddress:
    @pytest.mark.parametrize("url", ["http://127.0.0.1:8080/", "https://gpu.example/team", "http://[::1]:80"])
    def test_an_address_is_taken_without_its_last_slash(self, url: str) -> None:
        assert checked_url(url) == url.rstrip("/")

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "localhost:8080",
            "ftp://x",
            "http://",
            "http://x:99999",
            "http://x:y",
            "http://user:secret@x",
            "http://x/?q=1",
            "http://x/#f",
            "http://[::1",
        ],
    )
    def test_anything_else_is_answered_with_an_example(self, url: str) -> None:
        with pytest.raises(InputError, match=r"http://127\.0\.0\.1:8080"):
            checked_url(url)


class TestRequests:
    def test_the_token_goes_with_every_request(self, transport: Transport, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/x", of_json({}))
        transport.document("GET", "/v1/x", params={"limit": 3, "cursor": None, "label": ("a", "b")})
        (seen,) = platform.requests
        assert seen.headers["Authorization"] == "Bearer token-1"
        assert seen.query == {"limit": ["3"], "label": ["a", "b"]}

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, InvalidInputError),
            (401, UnauthenticatedError),
            (403, ForbiddenError),
            (404, NotFoundError),
            (409, ConflictError),
            (413, InvalidInputError),
            (422, InvalidInputError),
            (500, ApiError),
        ],
    )
    def test_a_refusal_becomes_the_error_of_its_status(
        self, transport: Transport, platform: FakePlatform, status: int, kind: type[ApiError]
    ) -> None:
        platform.on("GET", "/v1/x", problem(status, "some-code", "what is wrong", ("/a", "b", "c")))
        with pytest.raises(kind, match="what is wrong") as caught:
            transport.request("GET", "/v1/x")
        told = caught.value.problem
        assert (told.status, told.code, told.request_id) == (status, "some-code", "req-1")
        assert told.violations == (Violation("/a", "b", "c"),)
        assert len(platform.requests) == 1

    @pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"[]", b"", b'{"errors": 3}'])
    def test_an_error_page_of_something_else_becomes_a_problem_too(
        self, transport: Transport, platform: FakePlatform, body: bytes
    ) -> None:
        platform.on("GET", "/v1/x", Answer(404, body, {"X-Request-Id": "r-9"}))
        with pytest.raises(NotFoundError, match="answered 404") as caught:
            transport.request("GET", "/v1/x")
        assert caught.value.problem.request_id == "r-9"

    @pytest.mark.parametrize("body", [b"<html></html>", b"[1]", b"3"])
    def test_an_answer_that_is_no_object_is_an_error(
        self, transport: Transport, platform: FakePlatform, body: bytes
    ) -> None:
        platform.on("GET", "/v1/x", Answer(200, body, {"Content-Type": "text/html"}))
        with pytest.raises(UnexpectedAnswerError, match="answered"):
            transport.document("GET", "/v1/x")

    def test_a_redirect_is_not_followed_because_the_token_would_go_along(
        self, transport: Transport, platform: FakePlatform
    ) -> None:
        platform.on("GET", "/v1/x", Answer(302, b"", {"Location": "http://elsewhere/"}))
        with pytest.raises(UnexpectedAnswerError, match="redirects to http://elsewhere/"):
            transport.request("GET", "/v1/x")


class TestRepeats:
    def test_what_is_not_available_now_is_asked_again_with_growing_pauses(
        self, transport: Transport, platform: FakePlatform, pauses: list[float]
    ) -> None:
        not_now = problem(503, "unavailable", "not now")
        platform.on("GET", "/v1/x", not_now, not_now, of_json({"ok": True}))
        assert transport.document("GET", "/v1/x") == {"ok": True}
        assert pauses == [0.3, 0.6]

    def test_the_third_refusal_is_the_last(self, transport: Transport, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/x", problem(503, "unavailable", "not now"))
        with pytest.raises(UnavailableError, match="not now"):
            transport.request("GET", "/v1/x")
        assert len(platform.requests) == 3

    def test_a_connection_that_breaks_is_made_again(self, transport: Transport, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/x", Answer(pieces=[b"{"], breaks=True), of_json({"ok": True}))
        assert transport.document("GET", "/v1/x") == {"ok": True}

    def test_what_may_not_be_repeated_is_not(self, transport: Transport, platform: FakePlatform) -> None:
        platform.on("POST", "/v1/x", Answer(pieces=[b"{"], breaks=True))
        with pytest.raises(UnreachableError, match="broke"):
            transport.request("POST", "/v1/x", repeatable=False)
        assert len(platform.requests) == 1

    def test_too_many_requests_are_not_made_more(self, transport: Transport, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/x", problem(429, "too-many-requests", "slow down"))
        with pytest.raises(UnavailableError, match="slow down"):
            transport.request("GET", "/v1/x")
        assert len(platform.requests) == 1

    def test_where_nothing_listens_the_user_hears_so_at_once(
        self, transport: Transport, platform: FakePlatform, pauses: list[float]
    ) -> None:
        platform.stop()
        with pytest.raises(UnreachableError, match="trainmaster up"):
            transport.request("GET", "/v1/x")
        assert pauses == []


def test_a_silent_platform_is_told_from_a_dead_one(platform: FakePlatform) -> None:
    gate = threading.Event()
    platform.on("GET", "/v1/x", Answer(pieces=[b"{"], gate=gate))
    transport = Transport(platform.url, timeout_s=0.05, pause=lambda _: None)
    with pytest.raises(UnreachableError, match="did not answer in time"):
        transport.request("GET", "/v1/x")
    gate.set()
    transport.close()
