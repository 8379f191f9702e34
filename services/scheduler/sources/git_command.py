"""Runs `git` on what strangers wrote: without their configuration, within limits, with credentials that leave no trace.

The command sees a configuration of our own and nothing of the machine's or the user's; it runs no hook, follows no
redirect and no submodule, speaks only the one protocol that the URL has, and asks nobody anything. A password reaches
it in its environment alone, from which a credential helper gives it to the host of the URL and to no other. What it
writes is limited by the kernel, how long it takes by a deadline; at the end nothing of its process group is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from services.scheduler.ports.engine import StartRefusedError
from shared.units import GIB

DEFAULT_USERNAME: Final = "git"
_STDERR_CHARS: Final = 500
_ULIMIT_BLOCK_BYTES: Final = 512
_PROXIES: Final = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY")
_CONFIG: Final = """\
[core]
    hooksPath = /dev/null
[gc]
    auto = 0
[fetch]
    recurseSubmodules = false
    unpackLimit = 1
[submodule]
    recurse = false
[protocol]
    version = 2
[http]
    followRedirects = false
    lowSpeedLimit = 1000
    lowSpeedTime = 30
"""
_HELPER: Final = r"""!f() { [ "$1" = get ] && printf 'username=%s\npassword=%s\n' "$TM_USERNAME" "$TM_PASSWORD"; }; f"""


class GitError(Exception):
    """What git had to say, as one line."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who one is to a host."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GitLimits:
    """The most that one command may take."""

    time_s: float = 600.0
    file_bytes: int = 4 * GIB


class Git:
    """The command with a directory of its own for its configuration; `ca_file` replaces the machine's authorities."""

    def __init__(self, home: Path, ca_file: Path | None = None, limits: GitLimits | None = None) -> None:
        self._home = home
        self._ca_file = ca_file
        self._limits = limits or GitLimits()
        home.mkdir(parents=True, exist_ok=True)
        (home / "gitconfig").write_text(_CONFIG)

    async def run(self, *arguments: str, directory: Path, url: str = "", credentials: Credentials | None = None) -> str:
        """Output of `git ARGUMENTS` in a directory; only `url` may be spoken to.

        Raises GitError, StartRefusedError, and OSError where the disk is full.
        """
        git = shutil.which("git")
        if git is None:
            raise StartRefusedError("git is not installed on this machine; install it with: apt-get install git")
        limit = str(self._limits.file_bytes // _ULIMIT_BLOCK_BYTES)
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", 'ulimit -f "$0"; exec "$@"', limit, git, *arguments),
            cwd=directory,
            env=self._environment(url, credentials),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.time_s):
                output, errors = await process.communicate()
        except TimeoutError:
            raise GitError(f"it took longer than {self._limits.time_s:g} s") from None
        finally:
            if process.returncode is None:
                _end(process)
                await process.wait()
        if process.returncode != 0:
            raise _failure(errors.decode(errors="replace"), process.returncode)
        return output.decode(errors="replace")

    def _environment(self, url: str, credentials: Credentials | None) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in ("PATH", *_PROXIES) if name in os.environ},
            "HOME": str(self._home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._home / "gitconfig"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": urlsplit(url).scheme or "none",
            **({"GIT_SSL_CAINFO": str(self._ca_file)} if self._ca_file else {}),
            **(_credential_helper(url, credentials) if credentials else {}),
        }


def _credential_helper(url: str, credentials: Credentials) -> Mapping[str, str]:
    parts = urlsplit(url)
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"credential.{parts.scheme}://{parts.netloc}.helper",
        "GIT_CONFIG_VALUE_0": _HELPER,
        "TM_USERNAME": credentials.username,
        "TM_PASSWORD": credentials.password,
    }


def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing of the command's process group behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(errors: str, status: int | None) -> Exception:
    full = os.strerror(errno.ENOSPC)
    return OSError(errno.ENOSPC, full) if full in errors else GitError(_reason(errors, status))


def _reason(errors: str, status: int | None) -> str:
    """The line of git's complaints that says most."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    if not told:
        return "it grew too large" if status == -signal.SIGXFSZ else f"git ended with status {status}"
    sentence = told[0].removeprefix("fatal: ").removeprefix("error: ")
    if "could not read Username" in sentence or "could not read Password" in sentence:
        sentence = "it asks for a user and password; name a secret with a valid one in the code set"
    return sentence[:_STDERR_CHARS]
