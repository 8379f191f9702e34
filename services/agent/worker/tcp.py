"""The way between two nodes over plain TCP, for nodes of which one has no PyTorch.

A server on each node lets others in that know its token, and answers them. Each block has a checksum. Bandwidths are
the best of several blocks: what else happens on the machine only ever slows one down.

The all-reduce is the ring algorithm with XOR as its sum: each worker begins with a block that follows from its place,
so every worker knows the one right result, bit for bit.
"""

from __future__ import annotations

import queue
import secrets
import socket
import statistics
import struct
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

BLOCK_BYTES = 1 << 20
BLOCKS = 20
PINGS = 60
COPY_BYTES = 32 << 20
COPIES = 6
REDUCE_BYTES = 1 << 20
_TOKEN_CHARS = 32
_SOCKET_S = 15.0
_HEAD = struct.Struct("!cIQ")
_TAKES_AT_MOST = 64 << 20


def pattern(size: int, seed: int) -> bytes:
    """Bytes that follow from the seed and do not repeat soon."""
    word = (seed * 2654435761 + 12345) % (1 << 32)
    block = bytearray()
    while len(block) < 4096:
        word = (word * 1664525 + 1013904223) % (1 << 32)
        block += word.to_bytes(4, "little")
    return (bytes(block) * (size // len(block) + 1))[:size]


def copying() -> dict[str, float]:
    """Bandwidth of copying memory, reading and writing counted, in GB/s."""
    source, target = bytearray(COPY_BYTES), bytearray(COPY_BYTES)
    best = min(_seconds(lambda: target.__setitem__(slice(None), source)) for _ in range(COPIES))
    return {"memoryGbS": 2 * COPY_BYTES / best / 1e9}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return max(time.perf_counter() - began, 1e-9)


def read_exactly(connection: socket.socket, size: int) -> bytearray:
    """So many bytes; raises OSError where the other side closes before."""
    data = bytearray(size)
    view, have = memoryview(data), 0
    while have < size:
        got = connection.recv_into(view[have:])
        if not got:
            raise ConnectionError("the peer closed the connection")
        have += got
    return data


def send(connection: socket.socket, kind: bytes, data: bytes | bytearray, key: int = 0) -> None:
    """One block: its kind, key and length, the bytes, and their checksum."""
    connection.sendall(_HEAD.pack(kind, key, len(data)))
    connection.sendall(data)
    connection.sendall(zlib.crc32(data).to_bytes(4, "big"))


def receive(connection: socket.socket) -> tuple[bytes, int, bytearray]:
    """The next block as (kind, key, bytes); raises OSError where it is damaged."""
    kind, key, size = _HEAD.unpack(read_exactly(connection, _HEAD.size))
    if size > _TAKES_AT_MOST:
        raise ConnectionError(f"a block of {size} bytes is too large")
    data = read_exactly(connection, size)
    if zlib.crc32(data) != int.from_bytes(read_exactly(connection, 4), "big"):
        raise ConnectionError("a block came with a wrong checksum")
    return kind, key, data


def listening(host: str) -> socket.socket:
    """A socket that others connect to at this address, at a port that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=128)


class Server:
    """Answers other workers: `P` comes back as it is, `D` asks for a block, `U` brings one, `R` is part of a ring."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_hex(_TOKEN_CHARS // 2)
        self._listener = listening(host)
        self.port = self._listener.getsockname()[1]
        self._parts: dict[int, queue.Queue[bytearray]] = {}
        self._lock = threading.Lock()
        self._block = pattern(BLOCK_BYTES, 7)
        threading.Thread(target=self._accept, daemon=True).start()

    def parts(self, key: int) -> queue.Queue[bytearray]:
        """Where the parts of this step of a ring arrive."""
        with self._lock:
            return self._parts.setdefault(key, queue.Queue())

    def forget(self, key: int) -> None:
        """The step is over."""
        with self._lock:
            self._parts.pop(key, None)

    def _accept(self) -> None:
        while True:
            connection, _address = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_SOCKET_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                given = bytes(read_exactly(connection, _TOKEN_CHARS))
                if not secrets.compare_digest(given, self.token.encode()):
                    return
                while True:
                    self._answer(connection, *receive(connection))
            except OSError:
                return

    def _answer(self, connection: socket.socket, kind: bytes, key: int, data: bytearray) -> None:
        if kind == b"R":
            self.parts(key).put(data)
        elif kind == b"D":
            send(connection, kind, self._block)
        else:
            send(connection, kind, data if kind == b"P" else b"")


def connect(peer: dict[str, Any]) -> socket.socket:
    """A connection to another worker."""
    connection = socket.create_connection((peer["host"], peer["port"]), timeout=_SOCKET_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(peer["token"].encode())
    return connection


def exchange(peer: dict[str, Any]) -> dict[str, float]:
    """Latency of a short message there and back in microseconds, and the bandwidth both ways in MB/s."""
    block = pattern(BLOCK_BYTES, 7)
    with connect(peer) as connection:
        pings = [_seconds(lambda: _round_trip(connection, b"P", b"12345678")) for _ in range(PINGS)]
        there = min(_seconds(lambda: _round_trip(connection, b"U", block)) for _ in range(BLOCKS))
        back = min(_seconds(lambda: _round_trip(connection, b"D", b"")) for _ in range(BLOCKS))
    return {"latencyUs": statistics.median(pings) * 1e6, "bandwidthMbS": 2 * BLOCK_BYTES / (there + back) / 1e6}


def _round_trip(connection: socket.socket, kind: bytes, data: bytes) -> bytearray:
    send(connection, kind, data)
    return receive(connection)[2]


def reduce_over(server: Server, ring: list[dict[str, Any]], node: str, round_key: str) -> dict[str, Any]:
    """Bandwidth of the all-reduce in MB/s for this worker, or that its result is wrong."""
    count = len(ring)
    place = [peer["node"] for peer in ring].index(node)
    size = REDUCE_BYTES // count * count
    part = size // count
    data = bytearray(pattern(size, place))
    base = zlib.crc32(round_key.encode()) & ~0xFFFF
    began = time.perf_counter()
    with connect(ring[(place + 1) % count]) as after:
        for step in range(2 * (count - 1)):
            going = (place - step) % count if step < count - 1 else (place + 1 - (step - count + 1)) % count
            coming = (going - 1) % count
            send(after, b"R", data[going * part : (going + 1) * part], base + step)
            came = server.parts(base + step).get(timeout=_SOCKET_S)
            server.forget(base + step)
            here = slice(coming * part, (coming + 1) * part)
            data[here] = xor(data[here], came) if step < count - 1 else came
    took = time.perf_counter() - began
    right = pattern(size, 0)
    for other in range(1, count):
        right = xor(right, pattern(size, other))
    if data != right:
        return {"problem": "the all-reduce gave a wrong result"}
    return {"figures": {"allReduceMbS": 2 * (count - 1) * part / took / 1e6}}


def xor(one: bytes | bytearray, other: bytes | bytearray) -> bytes:
    """Both, bit by bit."""
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).to_bytes(len(one), "little")
