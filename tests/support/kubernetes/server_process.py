"""Parts of the real cluster where they are processes of this machine: an API server that is killed and started again,
a kubelet that is halted and goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.kubernetes.connection import Connection

MAY_KILL = "TRAINMASTER_TEST_MAY_KILL"
NOT_OURS = (
    f"no API server that may be killed: set KUBECONFIG to one that is a process of this machine, and {MAY_KILL}=1"
)
GONE_S = 10


def may_be_killed(kubeconfig: Path | None) -> bool:
    return kubeconfig is not None and bool(os.environ.get(MAY_KILL)) and _pid_of(kubeconfig) is not None


class ServerProcess:
    """Starts what it killed with the same arguments, environment and directory, to outlive the test."""

    def __init__(self, kubeconfig: Path) -> None:
        pid = _pid_of(kubeconfig)
        assert pid is not None, NOT_OURS
        self._pid = pid
        self._command = _words(pid, "cmdline")
        self._environment = dict(pair.partition("=")[::2] for pair in _words(pid, "environ"))
        self._directory = Path(f"/proc/{pid}/cwd").readlink()
        self._output = Path(f"/proc/{pid}/fd/1").readlink()

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        deadline = time.monotonic() + GONE_S
        while _is_alive(self._pid):
            assert time.monotonic() < deadline, "a killed process does not go"
            time.sleep(0.01)

    def start(self) -> None:
        with self._output.open("ab") as output:
            process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._pid = process.pid


@contextmanager
def halted_kubelet(node: str) -> Iterator[None]:
    """The kubelet of the node does nothing inside; what it started runs on."""
    pid = kubelet_of(node)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def kubelet_of(node: str) -> int | None:
    """The process of it, where it is one of this machine and may be halted."""
    if os.environ.get(MAY_KILL):
        for process in Path("/proc").glob("[0-9]*"):
            words = _words(int(process.name), "cmdline")
            if words and words[0].endswith("kubelet") and f"--hostname-override={node}" in words:
                return int(process.name)
    return None


def _pid_of(kubeconfig: Path) -> int | None:
    """Who was told to listen on the port that the kubeconfig names."""
    address = urlsplit(Connection.of(kubeconfig).url)
    for process in Path("/proc").glob("[0-9]*"):
        words = _words(int(process.name), "cmdline")
        if words and words[0].endswith("kube-apiserver") and f"--secure-port={address.port}" in words:
            return int(process.name)
    return None


def _words(pid: int, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
