"""An API server as JSON over HTTP: requests, and streams of lines.

The `kubernetes` package does the signing in (see `sign_in`), which is done again where the server does not know us any
more. Objects stay plain JSON here, because its models cost several times as much, and an agent needs three fields of a
pod. Requests are made here, too: the package's own way looks for passwords and proxies in files before each, which
costs more than the request does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Literal, Self
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from pydantic_core import from_json, to_json
from yarl import URL

from shared.errors import TrainmasterError, UnavailableError
from shared.kubernetes.documents import Json
from shared.kubernetes.sign_in import SignIn, sign_in, way

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

REQUEST_S: Final = 30.0
CONNECT_S: Final = 10.0
HEARTBEAT_S: Final = 20.0
PARALLEL_REQUESTS: Final = 64
READ_AHEAD_BYTES: Final = 1 << 21
SIGN_IN_PAUSE_S: Final = 5.0
"""How soon a kubeconfig that had nothing new is read again."""
JSON_TYPE: Final = "application/json"
BRIEF: Final = f"{JSON_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON_TYPE}"
"""What to accept where nobody looks at the answer: the server then leaves out all of an object but its metadata."""
PATCH_TYPE: Final = "application/merge-patch+json"
_MESSAGE_MAX: Final = 500


class ApiError(TrainmasterError):
    """The API server answered, and not with what was asked for; `status` is that of HTTP, `reason` Kubernetes' own.

    A server that is too busy may say after which time to ask again.
    """

    code = "kubernetes"

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"Kubernetes answered {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.said = message
        self.retry_after_s = retry_after_s


class KubernetesApi:
    """One API server; used as a context manager, or closed."""

    def __init__(self, client: ApiClient, signs_in: SignIn | None = None) -> None:
        self._client = client
        self._signs_in = signs_in
        self._way = way(client.configuration)
        self._signing_in = asyncio.Lock()
        self._sign_in_after = 0.0
        self._route = _route_of(client.configuration)
        self._connections: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all connections."""
        if self._connections is not None:
            await self._connections.close()
        await self._client.close()  # type: ignore[no-untyped-call]

    async def request(self, method: Method, path: str, *, query: Json | None = None, body: Json | None = None) -> Json:
        """The JSON that a request is answered with; raises ApiError, or UnavailableError where nobody answers."""
        return _json_of(await self.exchange(method, path, query=query, body=body))

    async def exchange(
        self, method: Method, path: str, *, query: Json | None = None, body: Json | None = None, accept: str = JSON_TYPE
    ) -> bytes:
        """What a request is answered with as it came; raises as `request`."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, connect=CONNECT_S)
        async with _reached():
            answer = await self._send(method, path, query, body, timeout, accept)
            data = await answer.read()
        if answer.status >= 400:
            raise error_of(answer.status, data, answer.headers.get("Retry-After", ""))
        if answer.content_type != JSON_TYPE:
            raise UnavailableError(f"what the Kubernetes API server sent is no JSON, but {answer.content_type}")
        return data

    async def lines(self, path: str, *, query: Json, silence_s: float) -> JsonLines:
        """Lines of JSON as they come, until the server ends the stream; raises as `request`, also after a silence.

        It returns once the server has agreed; from then on the stream has to be closed.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=silence_s)
        async with _reached():
            answer = await self._send("GET", path, query, None, timeout, JSON_TYPE)
            if answer.status >= 400:
                raise error_of(answer.status, await answer.read())
        return JsonLines(answer)

    @asynccontextmanager
    async def socket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A websocket for as long as it is used; raises ApiError where it is refused, or UnavailableError."""
        headers = await self._headers(path, "GET")
        async with _reached():
            opened = await self._session().ws_connect(
                self._url(path, query),
                headers=headers,
                protocols=protocols,
                heartbeat=HEARTBEAT_S,
                max_msg_size=0,
                **self._route,
            )
        try:
            yield opened
        finally:
            await opened.close()

    def _session(self) -> aiohttp.ClientSession:
        """The connections of all requests, opened with the first of them, as they belong to the loop that runs then."""
        if self._connections is None:
            connector = aiohttp.TCPConnector(limit=PARALLEL_REQUESTS, ssl=self._client.rest_client.ssl_context)
            no_cookies = aiohttp.DummyCookieJar()
            self._connections = aiohttp.ClientSession(
                connector=connector, cookie_jar=no_cookies, read_bufsize=READ_AHEAD_BYTES
            )
        return self._connections

    async def _send(self, method: Method, *request: Any) -> aiohttp.ClientResponse:
        """Ask, and once more where the server did not know us and there are other credentials by now."""
        client = self._client
        answer = await self._ask(method, *request)
        if answer.status == HTTPStatus.UNAUTHORIZED and await self._has_signed_in_anew(client):
            answer.release()
            return await self._ask(method, *request)
        return answer

    async def _has_signed_in_anew(self, since: ApiClient) -> bool:
        """Connections stay with another token, and are made anew with another certificate."""
        now = asyncio.get_running_loop().time()
        async with self._signing_in:
            if self._client is not since or self._signs_in is None or now < self._sign_in_after:
                return self._client is not since
            self._sign_in_after = now + SIGN_IN_PAUSE_S
            configuration = await self._signs_in()
            before, self._way = self._way, way(configuration)
            if self._way == before and configuration.api_key == since.configuration.api_key:
                return False
            self._client, self._route = ApiClient(configuration), _route_of(configuration)
            if self._way != before and self._connections is not None:
                await self._connections.close()
                self._connections = None
            await since.close()  # type: ignore[no-untyped-call]
            return True

    async def _ask(
        self,
        method: Method,
        path: str,
        query: Json | None,
        body: Json | None,
        within: aiohttp.ClientTimeout,
        accept: str,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": accept} | await self._headers(path, method)
        data = None
        if body is not None:
            headers["Content-Type"] = PATCH_TYPE if method == "PATCH" else JSON_TYPE
            data = to_json(body)
        url = self._url(path, list((query or {}).items()))
        return await self._session().request(method, url, headers=headers, data=data, timeout=within, **self._route)

    def _url(self, path: str, query: Sequence[tuple[str, Any]]) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._client.configuration.host}{path}{asked}", encoded=True)

    async def _headers(self, path: str, method: Method) -> dict[str, str]:
        """Who asks."""
        headers: dict[str, str] = {}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        return headers


class JsonLines:
    """The lines of JSON that an answer consists of, as they come."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.is_cut = False

    def cut(self) -> None:
        """End the stream where it is, as if the server had; what has come and was not taken is lost."""
        self.is_cut = True
        self._answer.close()

    async def aclose(self) -> None:
        """Let go of the connection."""
        self._answer.close()

    async def __aiter__(self) -> AsyncGenerator[Json, None]:
        try:
            async with _reached():
                async for line in _lines_of(self._answer.content):
                    if self.is_cut:
                        return
                    yield _json_of(line)
        except UnavailableError:
            if not self.is_cut:
                raise
        finally:
            self._answer.close()


async def connect(context: str = "", kubeconfig: str = "") -> KubernetesApi:
    """Access as this process has it; raises UnavailableError with what is wrong where it has none."""
    signs_in = sign_in(context, kubeconfig)
    configuration = await signs_in()
    try:
        return KubernetesApi(ApiClient(configuration), signs_in)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise UnavailableError(f"no access to Kubernetes at {configuration.host}: {error}") from error


def _route_of(configuration: Configuration) -> dict[str, Any]:
    """How connections come to the server, where that is said: by a proxy, to one that has another name."""
    proxy = configuration.proxy or _proxy_of_environment(URL(configuration.host))
    said = {
        "proxy": proxy,
        "proxy_headers": configuration.proxy_headers,
        "server_hostname": configuration.tls_server_name,
    }
    return {name: value for name, value in said.items() if value}


def _proxy_of_environment(server: URL) -> str:
    return "" if proxy_bypass(server.host or "") else getproxies().get(server.scheme, "")


def error_of(status: int, data: bytes, retry_after: str = "") -> ApiError:
    """What a `Status` object, or whatever else came with an error, says."""
    retry_after_s = float(retry_after) if retry_after.isdecimal() else 0.0
    try:
        told = from_json(data)
        reason, said = str(told.get("reason") or ""), str(told.get("message") or "")[:_MESSAGE_MAX]
    except (ValueError, AttributeError):
        reason, said = "", data[:_MESSAGE_MAX].decode("utf-8", "replace").strip()
    return ApiError(status, reason, said, retry_after_s)


@asynccontextmanager
async def _reached() -> AsyncIterator[None]:
    """Whatever keeps a request from being answered is one thing to who asks."""
    try:
        yield
    except aiohttp.WSServerHandshakeError as error:
        raise ApiError(error.status, "", "the connection was refused") from error
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise UnavailableError(f"the Kubernetes API server does not answer: {_why(error)}") from error


async def _lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Complete lines of any length; half a line, where the stream ends in one, is dropped."""
    rest = bytearray()
    async for piece in content.iter_any():
        rest += piece
        *lines, last = rest.split(b"\n") if b"\n" in piece else (rest,)
        for line in lines:
            if line:
                yield bytes(line)
        rest = last


def _json_of(data: bytes) -> Json:
    try:
        found = from_json(data)
    except ValueError as error:
        raise UnavailableError(f"what the Kubernetes API server sent is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnavailableError("what the Kubernetes API server sent is no JSON object")
    return found


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
