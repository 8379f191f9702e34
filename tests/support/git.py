"""Git repositories for tests, and an HTTPS server that serves them through git's own backend."""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_AUTHOR = {f"GIT_{who}_{what}": "t@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass(frozen=True)
class WorkTree:
    """A repository with files that are checked out."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> WorkTree:
        path.mkdir(parents=True)
        tree = cls(path)
        tree.git("init", "--quiet", "--initial-branch=main")
        return tree

    def git(self, *arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **_AUTHOR}
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit `name="text"` as `name.sh`; gives the commit's id."""
        for name, text in files.items():
            (self.path / f"{name}.sh").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")


@dataclass
class GitServer:
    """`https://localhost:PORT/<folder below root>`; `requests` has what was asked, with the credentials that came."""

    root: Path
    port: int
    ca_file: Path
    requests: list[tuple[str, str]]

    def url(self, name: str) -> str:
        return f"https://localhost:{self.port}/{name}"


@contextmanager
def git_server(root: Path, directory: Path, login: str = "") -> Iterator[GitServer]:
    """Serve the repositories below a root; with a login (`user:password`) to nobody else."""
    certificate, key = make_certificate(directory)
    requests: list[tuple[str, str]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(root, login, requests))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield GitServer(root, server.server_port, certificate, requests)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (directory / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (directory / "key.pem").write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()))
    return directory / "cert.pem", directory / "key.pem"


def _handler(root: Path, login: str, requests: list[tuple[str, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            requests.append((self.path, base64.b64decode(given).decode()))
            if login and base64.b64decode(given).decode() != login:
                self._send(401, {"WWW-Authenticate": 'Basic realm="git"'})
                return
            if self.path.startswith("/moved/"):
                self._send(302, {"Location": self.path.removeprefix("/moved")})
                return
            self._run_backend(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _run_backend(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "x",
            }
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self._send(int(fields.pop("Status", "200 OK").split()[0]), fields, content)

        def _send(self, status: int, fields: dict[str, str], content: bytes = b"") -> None:
            self.send_response(status)
            for field, value in {**fields, "Content-Length": str(len(content))}.items():
                self.send_header(field, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            pass

    return Handler
