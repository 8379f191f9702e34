"""Connecting to NATS: endless reconnects, errors logged, one inbox prefix a user so that permissions can be narrow."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from shared.bus.errors import BusUnavailableError
from shared.nats_servers import servers, trust


@dataclass(frozen=True, slots=True)
class BusOptions:
    """Where NATS is and who connects; `user` also names the inbox (`_INBOX_<user>`).

    `url` may be several with commas between; with `ca_file` the connection is encrypted and the server verified.
    """

    url: str
    user: str
    password: str = field(repr=False)
    name: str = ""
    connect_timeout_s: float = 5.0
    ca_file: Path | None = None

    @property
    def inbox_prefix(self) -> str:
        """Prefix of the subjects that replies come on."""
        return f"_INBOX_{self.user}"


_RECONNECT_WAIT_S: Final = 0.25


async def connect(options: BusOptions) -> Client:
    """Connected client; raises BusUnavailableError where no server takes the user within the connect timeout."""
    client = Client()
    last_error = ""
    log = structlog.get_logger(user=options.user)

    async def on_error(error: Exception) -> None:
        nonlocal last_error
        text = str(error) or type(error).__name__
        if text != last_error:  # a server that is away would otherwise fill the log four times a second
            log.warning("nats_error", error=text)
        last_error = text

    async def on_disconnect() -> None:
        log.warning("nats_disconnected")

    async def on_reconnect() -> None:
        nonlocal last_error
        last_error = ""
        log.info("nats_reconnected")

    try:
        async with asyncio.timeout(options.connect_timeout_s):
            await client.connect(
                servers(options.url),
                user=options.user,
                password=options.password,
                tls=trust(options.ca_file),
                name=options.name or options.user,
                inbox_prefix=options.inbox_prefix,
                error_cb=on_error,
                disconnected_cb=on_disconnect,
                reconnected_cb=on_reconnect,
                connect_timeout=2,
                reconnect_time_wait=_RECONNECT_WAIT_S,  # type: ignore[arg-type]  # a float sleeps as well
                max_reconnect_attempts=-1,
                ping_interval=20,
            )
    except (NatsError, OSError) as error:
        with contextlib.suppress(NatsError, OSError):
            await client.close()
        reason = last_error or str(error) or "no answer"
        raise BusUnavailableError(f"no NATS at {options.url} for user {options.user!r}: {reason}") from error
    return client
