"""The chart, installed on a real cluster by helm, in namespaces that go with the test."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.helm.__main__ import CHART
from tests.support.helm import tool
from tests.support.kubernetes.clusters import NO_CLUSTER, real_kubeconfig
from tests.support.nats import free_port
from tests.support.platform import await_

READY_S = 300


@dataclass(frozen=True)
class Installation:
    """A release `tm` in a namespace of its own, with another for jobs."""

    kubeconfig: Path
    namespace: str

    @property
    def jobs(self) -> str:
        return f"{self.namespace}-jobs"

    def run(self, name: str, *words: str, stdin: str = "", timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        command = [str(tool(name)), "--namespace", self.namespace, *words]
        return subprocess.run(
            command,
            env=self._environ(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def _environ(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def helm(self, *words: str, stdin: str = "") -> str:
        ended = self.run("helm", *words, stdin=stdin)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def install(
        self, verb: str = "install", *, values: Sequence[Mapping[str, Any]] = (), files: Sequence[Path] = ()
    ) -> None:
        """Later values win, and files over all of them. (JSON is YAML, too.)"""
        merged = {"jobs": {"namespace": self.jobs}}
        for each in values:
            merged |= each
        given = [word for file in files for word in ("--values", str(file))]
        self.helm(verb, "tm", str(CHART), "--values", "-", *given, stdin=json.dumps(merged))

    def secrets(self) -> dict[str, Any]:
        found = json.loads(self.run("kubectl", "get", "secrets", "--output", "json").stdout)["items"]
        return {s["metadata"]["name"]: s["data"] for s in found if s["metadata"]["name"].startswith("tm-trainmaster")}

    def may(self, account: str, verb: str, resource: str, namespace: str) -> bool:
        """Whether the server allows it; kubectl would take what stands behind a slash for a name."""
        kind, _, part = resource.partition("/")
        of_part = ["--subresource", part] if part else []
        whom = f"--as=system:serviceaccount:{self.namespace}:{account}"
        asked = self.run("kubectl", "auth", "can-i", verb, kind, *of_part, "--namespace", namespace, whom)
        return asked.stdout == "yes\n"

    def ready(self) -> None:
        """Wait until every service is."""
        limit = f"--timeout={READY_S}s"
        chosen = "--selector=app.kubernetes.io/instance=tm"
        asked = self.run(
            "kubectl", "rollout", "status", "deployment,statefulset", chosen, limit, timeout_s=READY_S + 10
        )
        assert asked.returncode == 0, asked.stdout + asked.stderr

    @contextmanager
    def service(self, component: str, token: str = "") -> Iterator[httpx.Client]:
        """A client of one of the services, by way of the API server and the node's kubelet."""
        port = free_port()
        command = [str(tool("kubectl")), "--namespace", self.namespace, "port-forward"]
        forwarding = subprocess.Popen(
            [*command, f"service/tm-trainmaster-{component}", f"{port}:8080"],
            env=self._environ(),
            stdout=subprocess.DEVNULL,
        )
        headers = {"authorization": f"Bearer {token}"} if token else {}
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30, trust_env=False)
        try:
            await_(f"{component} is reached", lambda: _answers(client))
            yield client
        finally:
            client.close()
            forwarding.kill()
            forwarding.wait()

    def token(self) -> str:
        """What the admin is known by."""
        password = base64.b64decode(self.secrets()["tm-trainmaster-admin"]["password"]).decode()
        with self.service("submitter") as http:
            answer = http.post("/v1/auth/login", json={"username": "admin", "password": password})
            assert answer.status_code == 200, answer.text
            return str(answer.json()["token"])

    def job_objects(self) -> list[str]:
        """What lies in the namespace of jobs, but for what Kubernetes itself puts there."""
        kinds = "pods,services,configmaps,secrets,networkpolicies"
        listed = self.run("kubectl", "get", kinds, "--namespace", self.jobs, "--output", "name").stdout.split()
        return [each for each in listed if not each.endswith("ca.crt")]


@contextmanager
def installed(values: Sequence[Mapping[str, Any]] = (), files: Sequence[Path] = ()) -> Iterator[Installation]:
    """The chart with these values; skips the test where there is no cluster."""
    kubeconfig = real_kubeconfig()
    if kubeconfig is None:
        pytest.skip(NO_CLUSTER)
    installation = Installation(kubeconfig, f"tm-test-{uuid.uuid4().hex[:8]}")
    installation.run("kubectl", "create", "namespace", installation.namespace)
    try:
        installation.install(values=values, files=files)
        yield installation
    finally:
        installation.run("helm", "uninstall", "tm")
        namespaces = (installation.namespace, installation.jobs)
        installation.run("kubectl", "delete", "namespace", *namespaces, "--wait=false", "--ignore-not-found")


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.TransportError:
        return False
