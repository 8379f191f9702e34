"""Finds out once, by trying it, whether replicas can be shut in on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.scheduler.engines.local.host_tree import HostTree, is_within
from services.scheduler.engines.local.sandbox import PRIVATE, Sandbox, View

INSTALL: Final = "install it with `apt-get install bubblewrap` or your system's package manager"
PROBE_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Why there is none, in a sentence that goes on with what helps."""

    reason: str


def probe(*, hidden: tuple[Path, ...], needed: tuple[Path, ...], python: Path) -> Sandbox | NoSandbox:
    """A sandbox in which an interpreter ran just now, or the reason why there is none."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return NoSandbox(f"bubblewrap is not installed; {INSTALL}")
    sandbox = Sandbox(
        bwrap=bwrap,
        hidden=tuple(sorted({os.path.realpath(path) for path in hidden})),
        needed=tuple(sorted({os.path.realpath(path) for path in needed})),
        drop_capabilities=os.geteuid() == 0,
        binds_descriptors=_knows_bind_fd(bwrap),
    )
    problem = _try(sandbox, python)
    return NoSandbox(f"bubblewrap does not work here: {problem}") if problem else sandbox


def needed_paths(python: Path, runner: Path, path_variable: str) -> tuple[Path, ...]:
    """What a replica needs of the host even where its folder is hidden: interpreters, and programs on PATH.

    Of a program folder such as `venv/bin` its parent is needed, for the libraries beside it.
    """
    programs = [Path(entry).resolve() for entry in path_variable.split(":") if entry.startswith("/")]
    prefixes = [entry.parent if entry.name == "bin" else entry for entry in programs]
    out_of_sight = [path for path in prefixes if any(is_within(str(path), private) for private in PRIVATE)]
    return (python, python.parent.parent / "lib", runner, *out_of_sight)


def _knows_bind_fd(bwrap: str) -> bool:
    text = subprocess.run([bwrap, "--help"], capture_output=True, text=True, check=False)  # noqa: S603  # ours, resolved
    return "--bind-fd" in text.stdout + text.stderr


def _try(sandbox: Sandbox, python: Path) -> str:
    """Empty where it worked, else what bubblewrap had to say."""
    with tempfile.TemporaryDirectory(prefix="trainmaster-probe-") as folder:
        view = View(host_name="probe", tmp=folder, hosts_file=os.devnull, files=folder)
        command = [sandbox.bwrap, *sandbox.arguments(view, HostTree()), "--", str(python), "-I", "-S", "-c", ""]
        try:
            done = subprocess.run(  # noqa: S603  # a command of our own
                command, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"it exited with code {done.returncode}"
