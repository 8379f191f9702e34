"""The real TensorBoard on a Unix socket: `python child.py PARENT_PID SOCKET OPTION…` with TensorBoard's own options.

TensorBoard listens on TCP, where every process of the machine, any job's replica among them, could read what it shows;
a socket in a directory of the platform's is reached by the platform alone. Where PARENT_PID is not 0 the kernel ends
this process with that parent; in a sandbox bubblewrap sees to that.

The file needs the standard library and TensorBoard, and nothing of this project, so that a sandbox need not show it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

from tensorboard import default, program
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

_PR_SET_PDEATHSIG = 1


class _Handler(WSGIRequestHandler):
    """Keeps connections open, and writes no line a request."""

    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "platform"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """The platform has its own record of requests."""


class _SocketServer(ThreadedWSGIServer):
    """What TensorBoard wants of a server, on a Unix socket."""

    daemon_threads = True

    def get_url(self) -> str:
        """TensorBoard writes it down for its own command, which finds it nowhere."""
        return "http://platform:1/"

    def print_serving_message(self) -> None:
        """The platform tells where it is."""


def main(parent: int, socket: str, options: list[str]) -> None:
    """Serve until ended."""
    if parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)

    def serve(app: Any, _flags: Any) -> _SocketServer:
        return _SocketServer(f"unix://{socket}", 0, app, handler=_Handler)

    board = program.TensorBoard(default.get_plugins(), server_class=serve)
    board.configure(["tensorboard", *options])
    sys.exit(board.main())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
