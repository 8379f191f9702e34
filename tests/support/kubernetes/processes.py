"""Runs pods as processes of this machine: what a kubelet and a container runtime do, with bubblewrap for the container.

Each container is process 1 of a process namespace of its own, as in a pod: it ignores a TERM that it does not handle,
and all it started ends with it. Images are not used; a container sees this machine's programs, its volumes at their
places, and in `/etc/hosts` the names of all pods that this runner has started. Users, limits and probes do not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from services.scheduler.engines.local.host_tree import HostTree
from services.scheduler.engines.local.sandbox import Bind, Sandbox, View
from services.scheduler.engines.local.sandbox_probe import NoSandbox, probe
from shared.tasks import end
from tests.support.kubernetes.connection import Connection
from tests.support.kubernetes.container_logs import log_path, read_log, write_log
from tests.support.kubernetes.containers import command_of, variables_of
from tests.support.kubernetes.kubelet import InitFailedError
from tests.support.kubernetes.pod_status import Exit
from tests.support.kubernetes.pod_volumes import PodVolumes
from tests.support.kubernetes.resources import Json

LOOPBACK: Final = "127.0.0.1"
FILES: Final = "/etc/trainmaster"
LINE_MAX_BYTES: Final = 1 << 20
MESSAGE_MAX_BYTES: Final = 2048


def image_environment() -> dict[str, str]:
    """The variables of an image that has what this test run has."""
    tree = str(Path(__file__).parents[3])
    programs = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    return {"PATH": programs, "PYTHONPATH": f"{tree}:{tree}/client", "LANG": "C.UTF-8"}


def _sandbox() -> Sandbox:
    """Never without one: what pods run may send signals to every process that it sees."""
    match probe(hidden=(), needed=(), python=Path(sys.executable)):
        case NoSandbox(reason):
            raise RuntimeError(f"pods cannot run as processes: {reason}")
        case sandbox:
            return sandbox


class ProcessRunner:
    """Starts pods below a directory; their logs lie in its `pods`."""

    def __init__(self, api: Connection, directory: Path):
        self.logs = directory / "pods"
        self._api, self._directory = api, directory
        self._image = image_environment()
        self._hosts = directory / "hosts"
        directory.mkdir(parents=True, exist_ok=True)
        self._hosts.write_text(f"{LOOPBACK} localhost\n")
        self._sandbox = _sandbox()

    async def start(self, pod: Json) -> PodProcess:
        """The pod's containers, its init containers done."""
        metadata, spec = pod["metadata"], pod["spec"]
        if len(spec["containers"]) != 1:
            raise ValueError(f"pod {metadata['name']}: pods of one container are run here")
        self._tell_hosts(pod)
        volumes = PodVolumes(self._directory / metadata["uid"] / "volumes", self._directory / "claims")
        await volumes.prepare(pod, lambda plural, name: self._fetch(metadata["namespace"], plural, name))
        for container in spec.get("initContainers") or []:
            how = await (await self._container(pod, container, volumes)).wait()
            if how.code != 0:
                raise InitFailedError(container["name"], self._with_message(how, pod, container))
        return await self._container(pod, spec["containers"][0], volumes)

    def _with_message(self, how: Exit, pod: Json, container: Json) -> Exit:
        """A failed container may have the end of its log as its message."""
        if container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return how
        said = read_log(log_path(self.logs, pod, container["name"]))[-MESSAGE_MAX_BYTES:]
        return replace(how, message=said.decode(errors="replace"))

    async def read_logs(self, pod: Json, query: dict[str, str]) -> bytes:
        """What the API server gives as the pod's log."""
        return read_log(log_path(self.logs, pod, query.get("container") or pod["spec"]["containers"][0]["name"]))

    async def _fetch(self, namespace: str, plural: str, name: str) -> Json:
        answer = await self._api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        if answer.status != 200:
            raise RuntimeError(answer.message)
        return answer.body

    async def _container(self, pod: Json, container: Json, volumes: PodVolumes) -> PodProcess:
        metadata = pod["metadata"]
        variables = await variables_of(
            container, pod, self._image, lambda plural, name: self._fetch(metadata["namespace"], plural, name)
        )
        view = self._view(pod, volumes.binds(container))
        log = log_path(self.logs, pod, container["name"])
        log.parent.mkdir(parents=True, exist_ok=True)
        options = self._sandbox.arguments(view, HostTree())
        directory = ("--chdir", container.get("workingDir") or "/")
        command = command_of(container, variables)
        return await PodProcess.started(self._sandbox.bwrap, [*options, *directory, "--", *command], variables, log)

    def _view(self, pod: Json, binds: list[Bind]) -> View:
        """Volumes at /tmp and at the platform's files take the places that a sandbox has for these anyway."""
        own = self._directory / pod["metadata"]["uid"]
        empty, tmp = own / "empty", own / "tmp"
        for each in (empty, tmp):
            each.mkdir(parents=True, exist_ok=True)
        view = View(pod["spec"].get("hostname") or pod["metadata"]["name"], str(tmp), str(self._hosts), str(empty))
        special = {each.path: str(each.source) for each in binds}
        mounts = tuple(each for each in binds if each.path not in {FILES, "/tmp", "/dev/shm"})
        return replace(view, tmp=special.get("/tmp", view.tmp), files=special.get(FILES, view.files), mounts=mounts)

    def _tell_hosts(self, pod: Json) -> None:
        """In place, since what runs already has this file as its own."""
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        name = spec.get("hostname") or pod["metadata"]["name"]
        long = f"{name}.{spec['subdomain']}" if spec.get("subdomain") else name
        with self._hosts.open("a") as hosts:
            hosts.write(f"{LOOPBACK} {long}.{namespace}.svc.cluster.local {long} {name}\n")


class PodProcess:
    """One container, running."""

    def __init__(self, process: asyncio.subprocess.Process, first: int, logging: list[asyncio.Task[None]]):
        self._process, self._first, self._logging = process, first, logging

    @classmethod
    async def started(cls, bwrap: str, arguments: list[str], variables: Mapping[str, str], log: Path) -> Self:
        told, telling = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                bwrap,
                "--info-fd",
                str(telling),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(variables),
                pass_fds=(telling,),
                start_new_session=True,
                limit=LINE_MAX_BYTES,
            )
        finally:
            os.close(telling)
        with open(told, "rb") as information:  # noqa: PTH123  # a descriptor
            described = await asyncio.to_thread(information.read)
        file = log.open("ab")
        assert process.stdout is not None
        assert process.stderr is not None
        logging = [
            asyncio.create_task(write_log(process.stdout, "stdout", file)),
            asyncio.create_task(write_log(process.stderr, "stderr", file)),
        ]
        return cls(process, json.loads(described)["child-pid"] if described else 0, logging)

    async def wait(self) -> Exit:
        """How it ended, with all it had to say written down."""
        code = await self._process.wait()
        await asyncio.gather(*self._logging)
        return Exit.of(code if code >= 0 else 128 - code)

    async def stop(self, grace_s: float) -> Exit:
        """TERM, and KILL where the grace was not enough."""
        self._signal(signal.SIGTERM)
        waiting = asyncio.create_task(self._process.wait())
        await asyncio.wait({waiting}, timeout=grace_s)
        if not waiting.done():
            self._signal(signal.SIGKILL)
        await waiting
        return await self.wait()

    async def abandon(self) -> None:
        """As when the node dies."""
        self._signal(signal.SIGKILL)
        await self._process.wait()
        await end(*self._logging)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._first:
                os.kill(self._first, number)
