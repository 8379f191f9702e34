"""The write-ahead log of one partition: what makes chunks durable before they are acknowledged.

A batch of records is appended with one write and one `fdatasync` (group commit). A record is its length, a CRC-32, and
the chunk as it came: subject and headers as text, then the body. The bodies are also what readers get until they are in
a segment: `Spot` says where one is.

A file is closed for writing when it is long enough, and removed when all that is in it is stored elsewhere. After a
restart a new file is begun, and the old ones are read up to the first record that is not whole: that was never
acknowledged. A write or sync that fails ends the file too, because nothing is known of what is in it then.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.logs.adapters.disk import sync_directory, write_at
from shared.errors import UnavailableError
from shared.logs_wire import Chunk, decode_chunk

FILE_BYTES: Final = 16 * 1024 * 1024
DELETED: Final = "deleted."
"""What the subject of a record begins with that says that a job is deleted."""
FILE_RECORDS: Final = 16_384
_FRAME: Final = struct.Struct("<IIH")
_LENGTHS: Final = struct.Struct("<IH")
_SUFFIX: Final = ".wal"


@dataclass(frozen=True, slots=True)
class Record:
    """A message as it came: subject, headers, body."""

    subject: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class WalFile:
    """One file of the log; open for reading as long as anybody refers to it, also when it was removed."""

    def __init__(self, path: Path, number: int, *, writable: bool = True) -> None:
        self.path = path
        self.number = number
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self.fd).st_size
        self.records = 0

    def read(self, at: int, length: int) -> bytes:
        """Bytes at a position."""
        return os.pread(self.fd, length, at)

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the body of a record is."""

    file: WalFile
    at: int


class Wal:
    """The files of one partition; only one process may have them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(directory / "lock")
        self.old = [WalFile(path, number) for number, path in wal_files(directory)]
        self._current: WalFile | None = None
        self._next_number = self.old[-1].number + 1 if self.old else 1

    def replay(self) -> Iterator[tuple[Record, Spot]]:
        """Every whole record of the old files, in order."""
        for file in self.old:
            for record, spot, _ in records_from(file, 0):
                yield record, spot

    def append(self, records: Sequence[Record]) -> list[Spot]:
        """Make the records durable; raises OSError, and then none of them counts."""
        file = self._current or self._begin()
        packed: list[bytes] = []
        spots, at = [], file.size
        for record in records:
            meta = encode_meta(record)
            frame = _FRAME.pack(len(meta) + len(record.body), _crc(meta, record.body), len(meta))
            packed += (frame, meta, record.body)
            spots.append(Spot(file, at + _FRAME.size + len(meta)))
            at += _FRAME.size + len(meta) + len(record.body)
        try:
            write_at(file.fd, file.size, b"".join(packed))
            os.fdatasync(file.fd)
        except OSError:
            self._abandon(file)
            raise
        file.size, file.records = at, file.records + len(records)
        if file.size >= FILE_BYTES or file.records >= FILE_RECORDS:
            self.rotate()
        return spots

    def rotate(self) -> None:
        """Write no more to the present file."""
        if self._current is not None:
            self.old.append(self._current)
            self._current = None

    def remove(self, files: Sequence[WalFile]) -> None:
        """All that is in these old files is stored elsewhere."""
        for file in files:
            file.path.unlink(missing_ok=True)
            self.old.remove(file)

    def close(self) -> None:
        """Let another process have the files."""
        os.close(self._lock)

    def _begin(self) -> WalFile:
        file = WalFile(self._directory / f"{self._next_number:08d}{_SUFFIX}", self._next_number)
        self._next_number += 1
        sync_directory(self._directory)
        self._current = file
        return file

    def _abandon(self, file: WalFile) -> None:
        """Records of a failed append may be in the file in part or whole; they are cut off as far as possible."""
        try:
            os.ftruncate(file.fd, file.size)
        except OSError:
            file.size = os.fstat(file.fd).st_size
        self.rotate()


def encode_meta(record: Record) -> bytes:
    """Subject and headers as text; headers hold no line breaks."""
    lines = [record.subject, *(f"{name}: {value}" for name, value in record.headers.items())]
    return "\n".join(lines).encode()


def decode_meta(meta: bytes, body: bytes) -> Record:
    """The record of which `encode_meta` made the text."""
    subject, *lines = meta.decode().split("\n")
    return Record(subject, dict(line.split(": ", 1) for line in lines), body)


def wal_files(directory: Path) -> list[tuple[int, Path]]:
    """The files of a partition in order, each with its number."""
    return sorted((int(path.stem), path) for path in directory.glob(f"*{_SUFFIX}"))


def decode_chunk_record(record: Record) -> Chunk:
    """The chunk of a record that is one."""
    return decode_chunk(record.subject, record.headers, record.body)


def records_from(file: WalFile, begin: int) -> Iterator[tuple[Record, Spot, int]]:
    """Every whole record from a position on that a record begins at, and the position behind it."""
    data, at = file.read(begin, os.fstat(file.fd).st_size - begin), 0
    while at + _FRAME.size <= len(data):
        length, crc, meta_bytes = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size
        meta, body = data[start : start + meta_bytes], data[start + meta_bytes : start + length]
        if meta_bytes > length or start + length > len(data) or crc != _crc(meta, body):
            return
        at = start + length
        yield decode_meta(meta, body), Spot(file, begin + start + meta_bytes), begin + at


def _crc(meta: bytes, body: bytes) -> int:
    """Checksum of a record, its lengths included: they say where one part ends and the other begins."""
    lengths = _LENGTHS.pack(len(meta) + len(body), len(meta))
    return zlib.crc32(body, zlib.crc32(meta, zlib.crc32(lengths)))


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise UnavailableError(f"{path.parent} belongs to another process of the logs service") from None
    return fd
