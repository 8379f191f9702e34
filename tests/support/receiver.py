"""A receiver of webhooks: a real HTTP server that answers as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Posted:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """What came in; `statuses` are given one after the other, then 200; at `stalled` paths once it is `released`."""

    url: str = ""
    posted: list[Posted] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    answer: bytes = b"ok"
    stalled: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that listens inside the block."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.posted.append(Posted(self.path, dict(self.headers.items()), body))
            if self.path in found.stalled:
                found.released.wait()
            self.send_response(found.statuses.pop(0) if found.statuses else 200)
            self.send_header("Content-Length", str(len(found.answer)))
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(found.answer)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        found.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
