"""HTTP to any API server that a kubeconfig names: no models, no retries, each answer as it came.

Tests of the API itself look at statuses and bodies through it, and the simulated kubelet works with it, on the test
server and on a real cluster alike.
"""

from __future__ import annotations

import base64
import io
import json
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from tests.support.kubernetes.resources import Json

MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: Json
    headers: dict[str, str]

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Connection:
    """A session with one API server."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None, token: str = ""):
        self.url = url
        self.tls = tls
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, kubeconfig: Path) -> Connection:
        """To the server of the kubeconfig's current context."""
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return cls(cluster["server"], tls=_tls(cluster, user), token=user.get("token", ""))

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self.tls or True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        self._session = aiohttp.ClientSession(headers=self._headers, connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: Any = None, *, media_type: str = "application/json", **query: Any
    ) -> Answer:
        """One request and its answer; a body that is no JSON comes as `text`."""
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        headers = {} if body is None else {"Content-Type": media_type}
        async with self._request(method, path, query, data=data, headers=headers) as response:
            text = await response.text()
            return Answer(response.status, _parsed(text), dict(response.headers))

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.ask("GET", path, **query)

    async def post(self, path: str, body: Json) -> Answer:
        return await self.ask("POST", path, body)

    async def put(self, path: str, body: Json) -> Answer:
        return await self.ask("PUT", path, body)

    async def patch(self, path: str, body: Any, media_type: str = MERGE_PATCH) -> Answer:
        return await self.ask("PATCH", path, body, media_type=media_type)

    async def delete(self, path: str, body: Json | None = None, **query: Any) -> Answer:
        return await self.ask("DELETE", path, body, **query)

    async def watch(self, path: str, **query: object) -> AsyncGenerator[Json, None]:
        """The events of a watch; ends as the server ends it, and raises where the connection breaks."""
        async with self._request("GET", path, {"watch": "true", **query}) as response:
            if response.status != 200:
                yield {"type": "STATUS", "object": _parsed(await response.text())}
                return
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    def _request(self, method: str, path: str, query: dict[str, object], **more: Any) -> Any:
        assert self._session is not None
        params = {key: str(value) for key, value in query.items()}
        return self._session.request(method, self.url + path, params=params, **more)


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Connection]:
    async with Connection.of(kubeconfig) as connection:
        yield connection


def _parsed(text: str) -> Json:
    try:
        body = json.loads(text)
    except ValueError:
        return {"text": text}
    return body if isinstance(body, dict) else {"value": body}


def _named(entries: list[Json], name: str) -> Json:
    return next(each for each in entries if each["name"] == name)


def _tls(cluster: Json, user: Json) -> ssl.SSLContext | None:
    if not cluster["server"].startswith("https"):
        return None
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=base64.b64decode(authority).decode() if authority else None,
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as both:  # the ssl module loads certificates from files only
            both.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            both.write(base64.b64decode(user["client-key-data"]))
            both.flush()
            context.load_cert_chain(both.name)
    return context
