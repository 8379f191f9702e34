"""Runs pods of rendered manifests on this machine, as a kubelet would: commands, variables, files and host names alone.

A container is a process in bubblewrap: its root is read-only and holds nothing but the system's programs and what the
manifest mounts, with the content of the Secrets and ConfigMaps of the same rendering. Pods share the machine's network,
so each has a loopback address of its own, and where a manifest says "every address" (0.0.0.0) the pod's stands instead.
Names of pods and services are told by `/etc/hosts`.
"""

from __future__ import annotations

import base64
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.helm import RUNNING, Manifest, named, of_kind, pod_of
from tests.support.platform import ROOT

_ANYWHERE = "0.0.0.0"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ssl", "/etc/ld.so.cache", "/etc/alternatives")
_addresses = (f"127.{os.getpid() % 200 + 20}.{number // 250}.{number % 250 + 2}" for number in itertools.count())


@dataclass
class Pod:
    """One pod, which runs or does not."""

    name: str
    workload: Manifest
    address: str
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def container(self) -> Manifest:
        (container,) = pod_of(self.workload)["containers"]
        return container

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def probe(self, kind: str) -> bool:
        """Whether the probe of this kind is well now."""
        get = self.container[f"{kind}Probe"]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        try:
            return httpx.get(f"http://{self.address}:{ports[get['port']]}{get['path']}", timeout=5).is_success
        except httpx.TransportError:
            return False

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal to the container's process and wait; gives its exit status."""
        assert self.process is not None
        for child in _children(self.process.pid):
            os.kill(child, number)
        return self.process.wait(30)


@dataclass
class Pods:
    """All pods of a rendering; those that were started end with `stop`."""

    manifests: Sequence[Manifest]
    directory: Path
    shared: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for workload in of_kind(self.manifests, *RUNNING):
            for name in _names(workload):
                self.pods[name] = Pod(name, workload, next(_addresses), self.directory / name)

    def of(self, component: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if _component(pod.workload) == component]

    def start(self, *pods: Pod) -> None:
        for pod in pods:
            pod.directory.mkdir(parents=True, exist_ok=True)
            with pod.log.open("ab") as log:
                command = [*self._sandbox(pod), *pod.container["command"]]
                pod.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={})

    def stop(self) -> None:
        running = [pod for pod in self.pods.values() if pod.process is not None and pod.process.poll() is None]
        for pod in running:
            assert pod.process is not None
            pod.process.kill()
            pod.process.wait()

    def _sandbox(self, pod: Pod) -> list[str]:
        sandbox = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session"]
        identity = pod_of(pod.workload)["securityContext"]
        sandbox += ["--uid", str(identity["runAsUser"]), "--gid", str(identity["runAsGroup"]), "--cap-drop", "ALL"]
        sandbox += ["--tmpfs", "/", "--proc", "/proc", "--dev", "/dev"]
        for path in _SYSTEM:
            sandbox += _link_or_bind(path)
        sandbox += ["--ro-bind", str(self._hosts()), "/etc/hosts", *self._mounts(pod)]
        for path in (sys.prefix, sys.base_prefix, str(ROOT)):  # these may lie below a mount, such as /tmp
            sandbox += _link_or_bind(path)
        sandbox += ["--remount-ro", "/"]
        programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        variables = {"PATH": programs, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **self._variables(pod)}
        return sandbox + [word for name, value in variables.items() for word in ("--setenv", name, value)]

    def _mounts(self, pod: Pod) -> Iterator[str]:
        volumes = {volume["name"]: volume for volume in pod_of(pod.workload)["volumes"]}
        volumes |= {claim["metadata"]["name"]: claim for claim in pod.workload["spec"].get("volumeClaimTemplates", ())}
        for mount in pod.container["volumeMounts"]:
            place = self._lay(pod, mount["name"], volumes[mount["name"]])
            yield from ("--ro-bind" if mount.get("readOnly") else "--bind", str(place), mount["mountPath"])

    def _lay(self, pod: Pod, name: str, volume: Manifest) -> Path:
        """The directory that holds what the volume holds."""
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        own = ("claims", claim) if claim else (pod.name, name)
        owner, name = self.shared.get((_component(pod.workload), name), own)
        place = self.directory / owner / "volumes" / name
        place.mkdir(parents=True, exist_ok=True)
        for file, content in self._content(volume, pod).items():
            (place / file).write_text(content)
        return place

    def _content(self, volume: Manifest, pod: Pod) -> dict[str, str]:
        if "secret" in volume:
            content = self._secret(volume["secret"]["secretName"])
        elif "configMap" in volume:
            content = dict(named(self.manifests, "ConfigMap", volume["configMap"]["name"])["data"])
        else:
            return {}
        source = volume.get("secret") or volume["configMap"]
        if "items" in source:
            content = {item["path"]: content[item["key"]] for item in source["items"]}
        return {file: text.replace(_ANYWHERE, pod.address) for file, text in content.items()}

    def secret(self, name: str, key: str) -> str:
        return self._secret(name)[key]

    def _secret(self, name: str) -> dict[str, str]:
        data = named(self.manifests, "Secret", name)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def _variables(self, pod: Pod) -> dict[str, str]:
        return {variable["name"]: self._value(variable, pod) for variable in pod.container["env"]}

    def _value(self, variable: Manifest, pod: Pod) -> str:
        if "value" in variable:
            return str(variable["value"]).replace(_ANYWHERE, pod.address)
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return self.secret(source["secretKeyRef"]["name"], source["secretKeyRef"]["key"])
        fields = {
            "metadata.name": pod.name,
            "spec.nodeName": "node-1",
            "status.hostIP": pod.address,
            "status.podIP": pod.address,
        }
        return fields[source["fieldRef"]["fieldPath"]]

    def _hosts(self) -> Path:
        file = self.directory / "hosts"
        lines = ["127.0.0.1 localhost"]
        for service in of_kind(self.manifests, "Service"):
            selector = service["spec"]["selector"].items()
            for pod in self.pods.values():
                labels = pod.workload["spec"]["template"]["metadata"]["labels"]
                if selector <= labels.items():
                    lines.append(f"{pod.address} {_service_name(service)} {pod.name}.{_service_name(service)}")
        file.write_text("\n".join(lines) + "\n")
        return file


def _service_name(service: Manifest) -> str:
    return f"{service['metadata']['name']}.tm.svc"


def _component(workload: Manifest) -> str:
    labels: Mapping[str, Any] = workload["metadata"]["labels"]
    return str(labels["app.kubernetes.io/component"])


def _names(workload: Manifest) -> list[str]:
    return [f"{workload['metadata']['name']}-{number}" for number in range(workload["spec"].get("replicas", 1))]


def _link_or_bind(path: str) -> list[str]:
    place = Path(path)
    if place.is_symlink():
        return ["--symlink", str(place.readlink()), path]
    return ["--ro-bind", path, path] if place.exists() else []


def _children(pid: int) -> list[int]:
    """Processes of the container: the sandbox's first process is bubblewrap's own, the one below it is the command."""
    below = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [int(c) for b in below for c in Path(f"/proc/{b}/task/{b}/children").read_text().split()]
