"""A scripted HTTP server for the client's tests: it says what a test tells it to, and remembers what it was asked.

`on` gives the answers to a request in their order; the last one is given again and again. An answer can be streamed in
pieces, and can end in a broken connection. `stop` and `start` are a platform that goes away and comes back.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """What the server says to one request; `gate` is waited for between the pieces and the end."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] | None = None
    breaks: bool = False
    gate: threading.Event | None = None


@dataclass(frozen=True)
class Seen:
    """A request as it came in."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def of_json(document: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON answer."""
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/json", **headers})


def problem(status: int, code: str, detail: str, *errors: tuple[str, str, str]) -> Answer:
    """A problem document; errors are (pointer, code, message)."""
    document = {
        "type": f"urn:trainmaster:problem:{code}",
        "title": code,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": "req-1",
        "errors": [{"pointer": pointer, "code": kind, "message": message} for pointer, kind, message in errors],
    }
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/problem+json"})


def of_events(*events: tuple[str | None, str | None, Any], breaks: bool = False, **options: Any) -> Answer:
    """A stream of (id, event, data)."""
    pieces = [b"retry: 1000\n\n", *(_encoded(*event) for event in events)]
    return Answer(headers={"Content-Type": "text/event-stream"}, pieces=pieces, breaks=breaks, **options)


def _encoded(event_id: str | None, event: str | None, data: Any) -> bytes:
    lines = [f"id: {event_id}"] if event_id is not None else []
    lines += [f"event: {event}"] if event is not None else []
    return ("\n".join([*lines, f"data: {json.dumps(data)}"]) + "\n\n").encode()


class FakePlatform:
    """One scripted server on a port of its own; with a certificate and its key it speaks TLS."""

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self._certificate = certificate
        self.requests: list[Seen] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}"

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path] = list(answers)

    def asked(self, method: str, path: str) -> list[Seen]:
        return [seen for seen in self.requests if (seen.method, seen.path) == (method, path)]

    def start(self) -> None:
        self._server = _Server(self.port, self)
        self.port = self._server.server_port
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def next_answer(self, seen: Seen) -> Answer:
        self.requests.append(seen)
        answers = self._answers.get((seen.method, seen.path))
        if not answers:
            return problem(404, "not-found", f"there is nothing at {seen.path}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextmanager
def fake_platform(certificate: tuple[Path, Path] | None = None) -> Iterator[FakePlatform]:
    """A running server."""
    platform = FakePlatform(certificate)
    platform.start()
    try:
        yield platform
    finally:
        platform.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, platform: FakePlatform) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.platform = platform


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: what was asked is in `FakePlatform.requests`."""

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # clients under test hang up in the middle
            super().handle_one_request()

    def answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = Seen(self.command, parts.path, parse_qs(parts.query), dict(self.headers.items()), body)
        answer = self.server.platform.next_answer(seen)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.pieces is None:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
        else:
            self._stream(answer)
        self.close_connection = self.close_connection or answer.breaks

    def _stream(self, answer: Answer) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces or ():
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        if answer.gate:
            answer.gate.wait()
        if not answer.breaks:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  # http.server's names
