"""The real helm, as a Python package ships it, and what it makes of the chart."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.helm.__main__ import CHART

_PACKAGE = "aws_cdk"
Manifest = Mapping[str, Any]
KUBERNETES = ("1.28", "1.37")
"""Versions for which manifests must be valid: the oldest that is supported, and the newest that there is."""

EVERYTHING: dict[str, Any] = {
    "gateway": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["train.example"]},
    "ingress": {"enabled": True, "host": "train.example", "className": "nginx", "tlsSecret": "web"},
    "monitoring": {"serviceMonitor": {"enabled": True}, "dashboard": {"enabled": True}},
    "networkPolicy": {"monitoring": [{"namespaceSelector": {}}], "natsClients": [{"podSelector": {}}]},
    "s3": {"existingSecret": "store", "endpoint": "https://s3.example"},
    "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
    "logs": {"replicas": 3, "archive": "s3://logs/prefix", "persistence": {"accessMode": "ReadWriteMany"}},
    "jobs": {"namespace": "jobs", "volcano": True, "pullSecrets": ["registry", "other"]},
    "agent": {
        "seesProcesses": True,
        "directories": ["/data", "/mnt/more"],
        "image": {"repository": "registry.example/agent", "tag": "cpu"},
        "gpus": {"enabled": True, "nodeSelector": {"gpu": "yes", "kind": "work"}, "image": {"tag": "cuda"}},
        "infiniband": {"enabled": True, "resource": "rdma/hca"},
    },
    "backup": {"enabled": True},
    "scheduler": {"env": {"TRAINMASTER_FILE_PREFIXES": "/data"}, "nodeSelector": {"kind": "system"}},
}
"""Values with which everything that may be left out is there."""


class HelmError(Exception):
    """What helm said."""


@cache
def tool(name: str) -> Path:
    """`helm` or `kubectl`, unpacked once for this environment: the package has them in an archive in an archive."""
    unpacked = Path(sys.prefix) / "libexec" / name
    if not unpacked.exists():
        partial = unpacked.with_name(f"{name}.{os.getpid()}.part")
        partial.parent.mkdir(exist_ok=True)
        partial.write_bytes(_packed(f"{name}/{name}"))
        partial.chmod(0o755)
        partial.replace(unpacked)
    return unpacked


def _packed(member: str) -> bytes:
    spec = importlib.util.find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    archives = [archive for place in places for archive in Path(place).glob("lambda_layer_kubectl_*/_jsii/*.tgz")]
    if not archives:
        raise HelmError("helm is not installed; install it with: make test")
    with tarfile.open(archives[0]) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            return files.read(member)


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """What helm prints; raises HelmError with what it complains of."""
    given = yaml.safe_dump(dict(values or {}))
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    command = [str(tool("helm")), *arguments, "--values", "-"]
    ended = subprocess.run(command, input=given, env=environ, capture_output=True, text=True, timeout=60, check=False)
    if ended.returncode:
        raise HelmError(ended.stderr)
    return ended.stdout


def render(values: Mapping[str, Any] | None = None, *, release: str = "tm") -> list[Manifest]:
    """The chart's objects in the order in which helm makes them."""
    text = helm("template", release, str(CHART), "--namespace", "tm", values=values)
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def of_kind(manifests: Sequence[Manifest], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def named(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    (found,) = [each for each in of_kind(manifests, kind) if each["metadata"]["name"] == name]
    return found


RUNNING = ("Deployment", "StatefulSet", "DaemonSet", "Job")
WORKLOADS = (*RUNNING, "CronJob")


def pod_of(workload: Manifest) -> Manifest:
    of = workload["spec"]["jobTemplate"] if workload["kind"] == "CronJob" else workload
    pod: Manifest = of["spec"]["template"]["spec"]
    return pod
