"""What whoever runs the platform relies on: budgets of disruption, probes, metrics, and where pods are placed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.helm import Manifest, named, of_kind, pod_of, render

SERVICES = {"submitter", "scheduler", "watchdog", "diagnoser", "logs"}
WATCHED: dict[str, Any] = {"monitoring": {"serviceMonitor": {"enabled": True}, "dashboard": {"enabled": True}}}
CERTIFIED: dict[str, Any] = {"nats": {"tls": {"mode": "certManager", "issuerRef": {"name": "ours"}}}}


@pytest.fixture(scope="module")
def plain() -> list[Manifest]:
    return render()


def component(manifest: Manifest) -> str:
    found: str = manifest["metadata"]["labels"]["app.kubernetes.io/component"]
    return found


def test_nodes_are_drained_of_no_more_than_one_pod_of_each_kind_at_a_time(plain: list[Manifest]) -> None:
    budgets = {component(each): each["spec"] for each in of_kind(plain, "PodDisruptionBudget")}
    running = {component(each): each for each in of_kind(plain, "Deployment", "StatefulSet")}
    assert budgets.keys() == running.keys() == {*SERVICES, "nats"}
    for name, workload in running.items():
        assert budgets[name]["maxUnavailable"] == 1
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert labels.items() >= budgets[name]["selector"]["matchLabels"].items()


def test_requests_go_where_consumers_are_well_and_who_is_cut_off_is_not_restarted(
    plain: list[Manifest],
) -> None:
    for workload in of_kind(plain, "Deployment", "StatefulSet"):
        (container,) = pod_of(workload)["containers"]
        asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
        if component(workload) == "nats":
            told = {"readiness": "/healthz?js-server-only=true", "liveness": "/healthz?js-enabled-only=true"}
            assert asked == {"startup": "/healthz", **told}
        else:
            assert asked == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}


def test_agents_are_updated_no_faster_than_they_are_ready(plain: list[Manifest], tmp_path: Path) -> None:
    (agent,) = of_kind(plain, "DaemonSet")
    assert agent["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    (container,) = pod_of(agent)["containers"]
    (file,) = [each["value"] for each in container["env"] if each["name"] == "TRAINMASTER_READY_FILE"]
    assert "livenessProbe" not in container
    *shell, script = container["readinessProbe"]["exec"]["command"]
    pulse = tmp_path / "ready"
    command = [*shell, script.replace(file, str(pulse))]
    assert subprocess.run(command, check=False, capture_output=True).returncode
    pulse.touch()
    assert not subprocess.run(command, check=False).returncode
    os.utime(pulse, times=(time.time() - 60,) * 2)
    assert subprocess.run(command, check=False).returncode


def test_prometheus_finds_the_metrics_of_every_service_and_nothing_else() -> None:
    found = render(WATCHED)
    (monitor,) = of_kind(found, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    chosen = {
        component(each): each for each in of_kind(found, "Service") if each["metadata"]["labels"].items() >= wanted
    }
    assert chosen.keys() == SERVICES
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] == "/metrics"
    assert all(endpoint["port"] in {port["name"] for port in each["spec"]["ports"]} for each in chosen.values())


def test_grafana_finds_the_dashboard(plain: list[Manifest]) -> None:
    dashboard = named(render(WATCHED), "ConfigMap", "tm-trainmaster-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["trainmaster.json"])["panels"]
    assert not of_kind(plain, "ServiceMonitor")
    assert "tm-trainmaster-dashboard" not in {each["metadata"]["name"] for each in plain}


def test_where_pods_are_placed_is_taken_from_the_values() -> None:
    placed = {"priorityClassName": "vital", "tolerations": [{"key": "a"}], "nodeSelector": {"kind": "system"}}
    found = render(dict.fromkeys((*SERVICES, "nats", "agent"), placed))
    for workload in of_kind(found, "Deployment", "StatefulSet", "DaemonSet"):
        assert pod_of(workload).items() >= placed.items(), workload["metadata"]["name"]


def test_what_differs_between_clusters_is_taken_from_the_values() -> None:
    found = render({"clusterDomain": "cluster.example", "agent": {"kubeletDirectory": "/data/kubelet"}, **CERTIFIED})
    assert "tm-trainmaster-nats.tm.svc.cluster.example" in of_kind(found, "Certificate")[0]["spec"]["dnsNames"]
    volumes = {each["name"]: each for each in pod_of(of_kind(found, "DaemonSet")[0])["volumes"]}
    assert volumes["kubelet"]["hostPath"]["path"] == "/data/kubelet"


def test_pods_with_code_are_told_what_opens_the_registry_of_the_platforms_image() -> None:
    for secrets, told in ((["registry", "other"], "registry,other"), ([], None)):
        pod = pod_of(named(render({"jobs": {"pullSecrets": secrets}}), "Deployment", "tm-trainmaster-scheduler"))
        given = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        assert given.get("TRAINMASTER_KUBE_PULL_SECRETS") == told
