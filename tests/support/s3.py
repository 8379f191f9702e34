"""A real S3 API for tests, moto's server, and what is in its buckets."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx

from shared.asset_settings import S3Options
from tests.support.nats import free_port

KEY_ID, SECRET_KEY, REGION = "test-key", "test-secret", "us-east-1"
logging.getLogger("botocore").setLevel(logging.WARNING)


@dataclass
class S3:
    """A running server with one bucket."""

    endpoint: str
    client: Any
    bucket: str = "team-bucket"

    @property
    def options(self) -> S3Options:
        return S3Options(self.endpoint, REGION, KEY_ID, SECRET_KEY)

    def settings(self, directory: Path) -> dict[str, Any]:
        """What a service has to be told."""
        key_file = directory / "s3-secret-key"
        key_file.write_text(SECRET_KEY + "\n")
        return {"s3_endpoint": self.endpoint, "s3_key_id": KEY_ID, "s3_secret_key_file": key_file}

    def put(self, **objects: str | bytes) -> None:
        """Make objects by key, `__` for a slash."""
        for key, body in objects.items():
            self.put_key(key.replace("__", "/"), body)

    def put_key(self, key: str, body: str | bytes) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def contents(self, prefix: str = "") -> dict[str, bytes]:
        """Every object below the prefix."""
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        keys = [each["Key"] for each in listed]
        return {key: self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}


@contextmanager
def s3_server(directory: Path) -> Iterator[S3]:
    """A server in a process of its own."""
    port = free_port()
    with (directory / "moto.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _await_ready(endpoint)
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET_KEY,
        )
        found = S3(endpoint, client)
        client.create_bucket(Bucket=found.bucket)
        yield found
        client.close()
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def stalling(s3: S3) -> AsyncIterator[S3]:
    """The same by way of a server that lists objects, and never answers who asks for one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"list-type=2" in request.partition(b"\r\n")[0]:
            inside, outside = await asyncio.open_connection(*s3.endpoint.removeprefix("http://").split(":"))
            outside.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            writer.write(await inside.read())
            outside.close()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield S3(f"http://{host}:{port}", s3.client, s3.bucket)
    finally:
        server.close()


def _await_ready(endpoint: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            httpx.get(endpoint, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("moto's server did not start")
