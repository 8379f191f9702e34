"""How TensorBoard is shut in: it sees Python, the records that it shows, and its socket; no network, nobody else.

Event files and what lies beside them are written by user code, and TensorBoard was not made to distrust them: its
projector plugin opens any path that a file in the directory names, and links are followed. In here there is nothing to
find. Its fast loader listens on TCP, which in a network namespace of its own no other process can reach.

Where bubblewrap is missing TensorBoard runs beside us, with the slow loader, and shows only what an agent shipped:
plain files with `tfevents` in their names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHILD: Final = Path(__file__).with_name("child.py")
SOCKET: Final = "socket"
LOGDIR: Final = "logdir"
_WORK: Final = "/run/board"
_INNER_CHILD: Final = "/run/child.py"
_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin")
_ETC: Final = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_TRY_S: Final = 10.0
_RELOAD_S: Final = 5


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory of this machine, and where TensorBoard sees it."""

    source: Path
    path: str


@dataclass(frozen=True, slots=True)
class Shut:
    """How TensorBoard is started on this machine; without `bwrap` it is not shut in."""

    bwrap: str | None = None

    @property
    def sandboxed(self) -> bool:
        """Whether TensorBoard sees only what it is shown."""
        return self.bwrap is not None

    def command(self, work: Path, binds: Iterable[Bind], prefix: str) -> list[str]:
        """The command line of a board; `work` has its `logdir` and `hosts`, and will have its socket."""
        python = [sys.executable, "-P"]
        if self.bwrap is None:
            return [*python, str(CHILD), str(os.getpid()), SOCKET, *_options(str(work / LOGDIR), prefix, fast=False)]
        inner = [*python, _INNER_CHILD, "0", f"{_WORK}/{SOCKET}", *_options(f"{_WORK}/{LOGDIR}", prefix, fast=True)]
        return [self.bwrap, *_view(), *_shown(work, binds), "--", *inner]


def find_sandbox() -> Shut:
    """How TensorBoard can be started here, by trying."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Shut()
    try:
        tried = subprocess.run(  # noqa: S603  # a fixed command
            [bwrap, *_view(), "--", sys.executable, "-I", "-S", "-c", ""],
            capture_output=True,
            timeout=_TRY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Shut()
    return Shut(bwrap if tried.returncode == 0 else None)


def _options(logdir: str, prefix: str, *, fast: bool) -> list[str]:
    loader = ["--load_fast", "auto" if fast else "false", "--reload_multifile", "true"]
    return ["--logdir", logdir, "--path_prefix", prefix, "--reload_interval", str(_RELOAD_S), *loader]


def _view() -> Iterator[str]:
    """Namespaces, the system's programs, and this Python."""
    yield from ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
    yield from ("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8")  # noqa: S108
    for path in _SYSTEM:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        else:
            yield from ("--ro-bind-try", path, path)
    for path in _ETC:
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/run")  # noqa: S108
    for path in _python():
        yield from ("--ro-bind-try", path, path)


def _python() -> list[str]:
    """Where this interpreter and what is installed for it lie, but not what only this project needs."""
    interpreter = os.path.dirname(os.path.realpath(sys.executable))  # noqa: PTH120, PTH  # beside a virtual environment
    installed = (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    return sorted({sys.prefix, sys.base_prefix, interpreter, *installed} - {"/usr", "/usr/bin", "/bin", "/"})


def _shown(work: Path, binds: Iterable[Bind]) -> Iterator[str]:
    yield from ("--ro-bind", str(CHILD), _INNER_CHILD, "--bind", str(work), _WORK)
    yield from ("--ro-bind", str(work / LOGDIR), f"{_WORK}/{LOGDIR}", "--ro-bind", str(work / "hosts"), "/etc/hosts")
    for bind in binds:
        yield from ("--ro-bind", str(bind.source), bind.path)
