"""The whole platform as a user has it: started and stopped by the command line, asked over HTTP, killed by its pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.nats import free_port

ROOT = Path(__file__).parents[2]
ENDED = ("Succeeded", "Failed", "Stopped")


def await_(what: str, condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    """The first true value of the condition; fails the test with `what` after the time is up."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)
    return value


@dataclass
class Platform:
    """One home directory, and the platform that runs in it."""

    home: Path
    nodes: int = 1
    leaves: int = 0
    port: int = field(default_factory=free_port)
    scratch: Path = Path()
    python_path: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": ":".join(map(str, (ROOT, ROOT / "client", *self.python_path))),
            "TRAINMASTER_CONFIG": str(self.home / "credentials.json"),
            "NO_COLOR": "1",
        }

    def cli(
        self, *arguments: str, check: bool = True, stdin: str | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one command as a user would."""
        done = subprocess.run(
            [sys.executable, "-m", "trainmaster", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"trainmaster {' '.join(arguments)} gave {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def up(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        cluster = ("--nodes", str(self.nodes), "--leaves", str(self.leaves))
        self.cli("up", "--home", str(self.home), "--port", str(self.port), *cluster, "--detach")

    def down(self) -> None:
        if self.pid is not None:
            self.cli("down", "--home", str(self.home))

    @property
    def pid(self) -> int | None:
        """Process of the platform, as it says itself; None where none is ready."""
        try:
            pid = int(json.loads((self.home / "platform.json").read_text())["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        pid = self.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await_("the killed platform is gone", lambda: self.pid is None)

    def kill_part(self, part: str) -> None:
        """kill -9 of the platform itself, or of one of its children (which it then starts again)."""
        if part == "platform":
            self.kill()
            return
        pid = await_(f"there is a process of {part}", lambda: self.child(part))
        os.kill(pid, signal.SIGKILL)
        await_(f"{part} was started again", lambda: (self.child(part) or pid) != pid)

    def child(self, part: str) -> int | None:
        """Process of `agent` or `nats-server`."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for child in children:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            if part.encode() in command:
                return int(child)
        return None

    @property
    def http(self) -> httpx.Client:
        """A client that is logged in as the admin."""
        login = json.loads((self.home / "credentials.json").read_text())
        return httpx.Client(
            base_url=login["url"], headers={"authorization": f"Bearer {login['token']}"}, timeout=30, trust_env=False
        )

    def apply(self, document: Mapping[str, Any]) -> None:
        """Apply one document, given as JSON (which is YAML too)."""
        self.cli("apply", "-f", "-", stdin=json.dumps(document))

    def submit(self, document: Mapping[str, Any]) -> str:
        """Submit a job over HTTP; gives its id."""
        with self.http as http:
            answer = http.post("/v1/jobs", json=document)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["id"])

    def job(self, job: str) -> dict[str, Any]:
        with self.http as http:
            answer = http.get(f"/v1/jobs/{job}")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def await_state(self, job: str, *states: str, timeout_s: float = 60) -> dict[str, Any]:
        """The job's document once it is in one of the states."""
        found: dict[str, Any] = await_(
            f"{job} is {' or '.join(states)}",
            lambda: document if (document := self.job(job))["status"]["state"] in states else None,
            timeout_s,
        )
        return found

    def await_end(self, job: str, timeout_s: float = 60) -> dict[str, Any]:
        return self.await_state(job, *ENDED, timeout_s=timeout_s)

    def log(self, job: str, attempt: int = 1, role: str = "worker", index: int = 0) -> bytes:
        """The raw log of a replica, complete."""

        def ended() -> bytes | None:
            with self.http as http:
                answer = http.get(f"/v1/logs/{job}/{attempt}/{role}/{index}", params={"raw": "true", "offset": 0})
            return answer.content if answer.status_code == 200 and answer.headers["tm-ended"] == "true" else None

        content: bytes | None = None

        def complete() -> bool:
            nonlocal content
            content = ended()
            return content is not None

        await_(f"the log of {job} {role}-{index} is complete", complete)
        assert content is not None
        return content

    def replica_processes(self) -> list[int]:
        """Processes whose environment names a job of this platform (they outlive it)."""
        marks = [f"TM_JOB_ID={gang.name.rsplit('-', 1)[0]}\0".encode() for gang in (self.home / "gangs").glob("tj-*")]
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                content = environ.read_bytes()
            except OSError:
                continue
            if any(mark in content for mark in marks):
                found.append(int(environ.parent.name))
        return found


def job_document(
    name: str, command: str, *, replicas: int = 1, instance_type: str = "cpu-tiny", **spec: Any
) -> dict[str, Any]:
    """A small job of one role."""
    role = {"name": "worker", "replicas": replicas, "instanceType": instance_type, "command": command}
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": {"source": "address", "ref": "none"}, "roles": [role], **spec},
    }
