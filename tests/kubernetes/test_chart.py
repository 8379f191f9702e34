"""The chart on a real cluster: helm installs, upgrades and removes it, and what must be denied is denied."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.helm.__main__ import CHART
from tests.support.helm import WORKLOADS, tool
from tests.support.kubernetes.clusters import NO_CLUSTER, real_kubeconfig

SCHEDULER, AGENT = "tm-trainmaster-scheduler", "tm-trainmaster-agent"


@dataclass(frozen=True)
class Installation:
    """A release `tm` in a namespace of its own, with another for jobs."""

    kubeconfig: Path
    namespace: str

    @property
    def jobs(self) -> str:
        return f"{self.namespace}-jobs"

    def run(self, name: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [str(tool(name)), "--namespace", self.namespace, *words]
        return subprocess.run(
            command, env=environ, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )

    def helm(self, *words: str) -> str:
        ended = self.run("helm", *words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def install(self, verb: str = "install", **values: str) -> None:
        given = {"jobs.namespace": self.jobs, **values}
        self.helm(verb, "tm", str(CHART), *(word for each in given.items() for word in ("--set", "=".join(each))))

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


@pytest.fixture
def installation() -> Iterator[Installation]:
    kubeconfig = real_kubeconfig()
    if kubeconfig is None:
        pytest.skip(NO_CLUSTER)
    installation = Installation(kubeconfig, f"tm-test-{uuid.uuid4().hex[:8]}")
    installation.run("kubectl", "create", "namespace", installation.namespace)
    try:
        installation.install()
        yield installation
    finally:
        installation.run("helm", "uninstall", "tm")
        namespaces = (installation.namespace, installation.jobs)
        installation.run("kubectl", "delete", "namespace", *namespaces, "--wait=false", "--ignore-not-found")


def test_keys_and_passwords_outlive_upgrades_and_removal(installation: Installation) -> None:
    made = installation.secrets()
    assert set(made) == {f"tm-trainmaster-{each}" for each in ("admin", "nats-passwords", "nats-tls")} | {
        "tm-trainmaster-signing-key",
        "tm-trainmaster-secret-keys",
    }
    installation.install("upgrade", **{"submitter.replicas": "2"})
    assert installation.secrets() == made
    installation.helm("uninstall", "tm")
    assert installation.secrets() == made
    installation.install()
    assert installation.secrets() == made


def test_each_account_may_do_what_it_must_and_nothing_else(installation: Installation) -> None:
    jobs, own = installation.jobs, installation.namespace
    assert installation.may(SCHEDULER, "create", "pods", jobs)
    assert installation.may(SCHEDULER, "create", "pods/binding", jobs)
    assert installation.may(SCHEDULER, "create", "pods/exec", jobs)
    assert installation.may(SCHEDULER, "list", "nodes", own)
    assert installation.may(AGENT, "watch", "pods", jobs)
    denied = [
        *((SCHEDULER, "create", each, own) for each in ("pods", "pods/binding", "secrets", "configmaps")),
        *((SCHEDULER, verb, "secrets", where) for verb in ("list", "watch") for where in (jobs, own)),
        (SCHEDULER, "get", "secrets", own),
        (SCHEDULER, "delete", "nodes", own),
        *((SCHEDULER, verb, "pods/exec", own) for verb in ("get", "create")),
        *((SCHEDULER, "create", each, jobs) for each in ("roles", "rolebindings", "serviceaccounts/token")),
        *((SCHEDULER, "create", each, own) for each in ("clusterroles", "clusterrolebindings", "namespaces")),
        (SCHEDULER, "get", "nodes/proxy", own),
        *((AGENT, verb, each, jobs) for verb in ("create", "delete") for each in ("pods", "pods/exec")),
        (AGENT, "get", "secrets", jobs),
        *(
            (f"tm-trainmaster-{each}", "get", what, where)
            for each in ("submitter", "watchdog", "diagnoser", "logs", "nats", "provision", "stranger")
            for what in ("pods", "secrets")
            for where in (jobs, own)
        ),
    ]
    assert [asked for asked in denied if installation.may(*asked)] == []


def test_pods_of_services_are_taken_where_pods_are_restricted_and_only_the_agents_are_not(
    installation: Installation,
) -> None:
    enforced = "pod-security.kubernetes.io/enforce=restricted"
    installation.run("kubectl", "label", "namespace", installation.namespace, "--overwrite", enforced)
    manifests = yaml.safe_load_all(installation.helm("get", "manifest", "tm"))
    refused = {}
    for workload in (each for each in manifests if each and each["kind"] in WORKLOADS):
        name = workload["metadata"]["name"]
        template = workload["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": template["spec"]}
        pod["spec"]["volumes"] += [
            {"name": claim["metadata"]["name"], "emptyDir": {}}
            for claim in workload["spec"].get("volumeClaimTemplates", ())
        ]
        ended = installation.run("kubectl", "create", "--dry-run=server", "--filename", "-", stdin=json.dumps(pod))
        if ended.returncode:
            refused[name] = ended.stderr
    assert set(refused) == {AGENT}
    assert "PodSecurity" in refused[AGENT]
