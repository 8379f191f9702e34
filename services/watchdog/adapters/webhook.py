"""Posting to a webhook: one request, one short answer, nothing followed, and never to where it must not go.

Users choose the address, and the platform stands inside of a network that they do not. So the name is resolved here,
every address that it means must be a public one or in a network that an admin allowed, and the connection goes to that
very address: a name that means another one a moment later changes nothing. Redirections are answers like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httptools

from services.watchdog.domain.webhook_formats import WebhookAnswer, WebhookRequest
from shared.errors import TrainmasterError

LIMIT_S: Final = 10.0
ANSWER_MAX_BYTES: Final = 16 * 1024
_PORTS: Final = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Public by their numbers, and yet ways into networks of ours: addresses that are translated into IPv4 ones.
_TRANSLATED: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


class DeliveryError(TrainmasterError):
    """Nothing was delivered; `is_final`: it would be the same another time."""

    code = "unavailable"

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where webhooks may go beside public addresses."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Destinations:
        """Networks with commas between; raises ValueError."""
        return cls(tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip()))

    def permit(self, address: Address) -> bool:
        """Whether a connection may go there."""
        plain = getattr(address, "ipv4_mapped", None) or address
        if any(plain.version == network.version and plain in network for network in self.allowed):
            return True
        translated = any(plain.version == network.version and plain in network for network in _TRANSLATED)
        return plain.is_global and not plain.is_multicast and not translated


class Webhooks:
    """Posts requests."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._tls = ssl.create_default_context()

    async def post(self, request: WebhookRequest) -> WebhookAnswer:
        """The receiver's answer; raises DeliveryError."""
        try:
            async with asyncio.timeout(LIMIT_S):
                return await self._post(request)
        except TimeoutError:
            raise DeliveryError(f"the receiver did not answer within {LIMIT_S:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(f"the receiver's certificate is not trusted: {error.verify_message}") from error
        except (OSError, httptools.HttpParserError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DeliveryError(f"the receiver cannot be reached: {reason}") from error

    async def _post(self, request: WebhookRequest) -> WebhookAnswer:
        parts = urlsplit(request.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        address = await self._address(host, port)
        secure = {"ssl": self._tls, "server_hostname": host} if parts.scheme == "https" else {}
        reader, writer = await asyncio.open_connection(str(address), port, **secure)  # type: ignore[arg-type]
        try:
            writer.write(_head(request, parts) + request.body)
            await writer.drain()
            return await _answer(reader)
        finally:
            writer.transport.abort()

    async def _address(self, host: str, port: int) -> Address:
        found = await _resolved(host, port)
        if not found:
            raise DeliveryError(f"there is no host {host}")
        if not all(map(self._destinations.permit, found)):
            raise DeliveryError(
                f"{host} is not on the public internet; an admin may allow its network with "
                "TRAINMASTER_WEBHOOK_NETWORKS",
                is_final=True,
            )
        return found[0]


class _Answer:
    """Collects an answer; httptools calls the methods by their names."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.is_complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data[: ANSWER_MAX_BYTES - len(self.body)]
        self.is_complete = len(self.body) >= ANSWER_MAX_BYTES

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _resolved(host: str, port: int) -> Sequence[Address]:
    with contextlib.suppress(ValueError):
        return [ipaddress.ip_address(host)]
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return _addresses(info[4][0] for info in infos)


def _addresses(texts: Iterable[object]) -> list[Address]:
    return list(dict.fromkeys(ipaddress.ip_address(str(text).partition("%")[0]) for text in texts))


def _head(request: WebhookRequest, parts: SplitResult) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "Content-Length": str(len(request.body)),
        "User-Agent": "trainmaster",
        "Connection": "close",
        **request.headers,
    }
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii", "backslashreplace")


async def _answer(reader: asyncio.StreamReader) -> WebhookAnswer:
    """The answer to its end, or as much of it as is read at most."""
    collected = _Answer()
    parser = httptools.HttpResponseParser(collected)
    read_bytes = 0
    while not collected.is_complete and read_bytes < 2 * ANSWER_MAX_BYTES and (data := await reader.read(4096)):
        parser.feed_data(data)
        read_bytes += len(data)
    status = parser.get_status_code()
    if not status:
        raise DeliveryError("the receiver closed the connection without an answer")
    return WebhookAnswer(status, bytes(collected.body))
