"""A real nats-server for tests: one process a session, wiped streams a test where a test asks for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from nats.aio.client import Client as NatsClient

from shared.bus import Bus, BusOptions
from shared.bus.provision import provision


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def nats_server_path() -> str:
    beside_python = Path(sys.executable).parent / "nats-server"
    return str(beside_python) if beside_python.exists() else "nats-server"


@dataclass
class NatsServer:
    """A nats-server that a test may kill and start again on the same port and files."""

    store: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    sync_always: bool = True

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def write_config(self) -> Path:
        config = self.store / "nats.conf"
        sync = ", sync_interval: always" if self.sync_always else ""
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 1MB\njetstream {{ store_dir: "{self.store}/js"{sync} }}\n',
        )
        return config

    def start(self) -> None:
        self.store.mkdir(parents=True, exist_ok=True)
        config = self.write_config()
        with (self.store / "nats.log").open("ab") as log:
            self.process = subprocess.Popen([nats_server_path(), "-c", str(config)], stdout=log, stderr=log)
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                if sock.recv(4) == b"INFO":
                    return
            time.sleep(0.01)
        raise RuntimeError(f"nats-server did not start; see {self.store}/nats.log")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def bus(self, user: str = "", *, patience_s: float = 30.0) -> Bus:
        return await Bus.connect(BusOptions(self.url, user, "", name=user or "test"), patience_s=patience_s)

    async def wipe(self) -> None:
        """Fresh streams, consumers and buckets."""
        bus = await self.bus("wipe")
        names = [info.config.name for info in await bus.js.streams_info()]
        await asyncio.gather(*(bus.js.delete_stream(str(name)) for name in names))
        await provision(bus.js)
        await bus.close()


async def registered(client: NatsClient) -> None:
    """Return once the server knows every subscription of the client.

    A flush writes its PING at once, and may overtake a SUB that still waits for the client's flusher; the second is
    written after that has run.
    """
    await client.flush()
    await client.flush()
