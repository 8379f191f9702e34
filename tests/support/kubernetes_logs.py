"""Container logs as a runtime writes them and a kubelet rotates them."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

CONTAINERD_LINE_BYTES = 16 * 1024


def entries_of(
    written: bytes, *, longest: int = CONTAINERD_LINE_BYTES, stream: str = "stdout", first: int = 0
) -> bytes:
    """The entries that a runtime makes of what a process wrote; each has a time of its own, from `first` on."""
    entries: list[tuple[bytes, str]] = []
    *lines, last = written.split(b"\n")
    for line in lines:
        *starts, end = _pieces(line, longest)
        entries += [*((start, "P") for start in starts), (end, "F")]
    if last:
        entries += [(piece, "P") for piece in _pieces(last, longest)]
    return b"".join(
        f"{_time(first + number)} {stream} {tag} ".encode() + text + b"\n" for number, (text, tag) in enumerate(entries)
    )


def _pieces(line: bytes, longest: int) -> list[bytes]:
    return [line[at : at + longest] for at in range(0, len(line), longest)] or [b""]


def _time(number: int) -> str:
    seconds, nanoseconds = divmod(number, 1_000_000_000)
    return f"2026-01-02T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanoseconds:09}Z"


class ContainerLog:
    """The log directory of one container: the runtime writes, the kubelet rotates, packs and removes."""

    def __init__(self, directory: Path, number: int = 0) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.path = directory / f"{number}.log"
        self.written = b""
        self._entries = 0
        self._rotations = 0
        self._file = self.path.open("ab", buffering=0)

    def write(self, data: bytes, *, longest: int = CONTAINERD_LINE_BYTES, stream: str = "stdout") -> None:
        """The process writes; whole lines, or the last before it ends."""
        entries = entries_of(data, longest=longest, stream=stream, first=self._entries)
        self._entries += entries.count(b"\n")
        self.written += data
        self._file.write(entries)

    def write_raw(self, data: bytes) -> None:
        """Half an entry, or none at all."""
        self._file.write(data)

    def rotate(self, *, keep: int = 4) -> None:
        """As the kubelet does: remove the oldest, pack the others, rename the live file, have a new one opened."""
        rotated = sorted(self.directory.glob(f"{self.path.name}.*"))
        for path in rotated[: max(0, len(rotated) - keep + 1)]:
            path.unlink()
        for path in rotated:
            if path.exists() and path.suffix != ".gz":
                self._pack(path)
        self._rotations += 1
        self.path.rename(self.directory / f"{self.path.name}.20260102-{self._rotations:06}")
        self._file.close()
        self._file = self.path.open("ab", buffering=0)

    def _pack(self, path: Path) -> None:
        partial = path.with_name(path.name + ".tmp")
        with path.open("rb") as source, gzip.open(partial, "wb") as target:
            shutil.copyfileobj(source, target)
        partial.rename(path.with_name(path.name + ".gz"))
        path.unlink()

    def remove(self) -> None:
        """The kubelet removes the pod's directory; the runtime may go on writing."""
        shutil.rmtree(self.directory.parent)

    def close(self) -> None:
        self._file.close()
