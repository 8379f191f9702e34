"""The chart as helm renders it, run: three servers of NATS with TLS, each service a process, a job through the gateway.

Pods are run by `tests.support.pods`; replicas run under the local engine, whose directory scheduler and agent share.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deploy.helm.__main__ import CHART
from tests.support.gateway import Gateway, routes
from tests.support.helm import render
from tests.support.platform import ENDED, await_, job_document
from tests.support.pods import Pods

pytestmark = pytest.mark.e2e

SERVICES = ("submitter", "scheduler", "watchdog", "diagnoser", "logs")
VALUES: dict[str, Any] = {
    "logs": {"replicas": 2, "persistence": {"accessMode": "ReadWriteMany"}},
    "submitter": {"replicas": 2},
    "gateway": {"enabled": True, "parentRefs": [{"name": "public"}]},
    "scheduler": {"replicas": 1, "env": {"TRAINMASTER_ENGINE": "local"}},
    "agent": {"env": {"TRAINMASTER_AGENT_SOURCE": "local", "TRAINMASTER_MACHINE": "node-1"}},
}
INSIDE = {"/v1/gang-code"}  # pods of gangs ask the scheduler itself
ADMIN_SECRET = "tm-trainmaster-admin"


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    scheduler_home = ("tm-trainmaster-scheduler-0", "home")
    pods = Pods(render(VALUES), tmp_path_factory.mktemp("pods"), {("agent", "home"): scheduler_home})
    try:
        pods.start(*pods.pods.values())
        await_("every pod is ready", lambda: are_ready(pods), timeout_s=90)
        yield pods
    finally:
        pods.stop()


def are_ready(pods: Pods) -> bool:
    (provisioning,) = pods.of("provision")
    assert provisioning.process is not None
    if (status := provisioning.process.poll()) != 0:
        assert status is None, provisioning.log.read_text()
        return False
    return all(pod.probe("readiness") for part in ("nats", *SERVICES) for pod in pods.of(part))


@pytest.fixture
def http(pods: Pods) -> Iterator[httpx.Client]:
    """A client behind the gateway, logged in as the admin that helm made a password for."""
    with httpx.Client(transport=Gateway(pods), base_url="https://train.example", timeout=30) as client:
        login = {"username": "admin", "password": pods.secret(ADMIN_SECRET, "password")}
        answer = client.post("/v1/auth/login", json=login)
        assert answer.status_code == 200, answer.text
        client.headers["authorization"] = f"Bearer {answer.json()['token']}"
        yield client


def run_job(http: httpx.Client, name: str) -> tuple[str, str]:
    """Id of a job that says hello, and the state in which it ended; asked again where no answer can be given."""

    def submitted() -> str | None:
        key = {"idempotency-key": name}
        answer = http.post("/v1/jobs", json=job_document(name, "echo hello"), headers=key)
        return str(answer.json()["metadata"]["id"]) if answer.is_success else None

    def state() -> str | None:
        answer = http.get(f"/v1/jobs/{job}")
        found = answer.json()["status"]["state"] if answer.is_success else ""
        return found if found in ENDED else None

    job = await_(f"{name} is submitted", submitted)
    return job, await_(f"{job} has ended", state)


def log_of(http: httpx.Client, job: str) -> bytes:
    """The log of the job's replica, complete."""

    def content() -> bytes | None:
        answer = http.get(f"/v1/logs/{job}/1/worker/0", params={"raw": "true", "offset": 0})
        return answer.content if answer.headers.get("tm-ended") == "true" else None

    found: bytes = await_(f"the log of {job} is complete", content)
    return found


def test_a_job_runs_and_its_log_is_kept(http: httpx.Client) -> None:
    job, state = run_job(http, "first")
    assert state == "Succeeded"
    assert log_of(http, job) == b"hello\n"


def test_the_gateway_routes_every_prefix_to_the_service_that_serves_it(pods: Pods) -> None:
    served: dict[str, str] = {}
    for service in SERVICES:
        pod = pods.of(service)[0]
        paths = httpx.get(f"http://{pod.address}:8080/openapi.json").json()["paths"]
        served |= {"/".join(path.split("/")[:3]): f"tm-trainmaster-{service}" for path in paths}
    assert dict(routes(pods.manifests)) == {prefix: name for prefix, name in served.items() if prefix not in INSIDE}


def test_the_dashboard_shows_every_metric_that_there_is_and_no_other(pods: Pods) -> None:
    exported: set[str] = set()
    for service in SERVICES:
        pod = pods.of(service)[0]
        page = httpx.get(f"http://{pod.address}:8080/metrics").text
        exported |= set(re.findall(r"^# TYPE (trainmaster_\w+) (?:counter|gauge|histogram)$", page, re.MULTILINE))
    dashboard = (CHART / "files" / "dashboard.json").read_text()
    shown = set(re.findall(r"trainmaster_\w+", dashboard))
    assert {name.removesuffix("_bucket") for name in shown} == {name for name in exported if "_created" not in name}


def test_what_nobody_serves_is_not_found(pods: Pods) -> None:
    with httpx.Client(transport=Gateway(pods), base_url="https://train.example") as client:
        assert client.get("/metrics").status_code == 404
        assert client.get("/v1/jobsx").status_code == 404


def test_containers_cannot_write_where_no_volume_is(pods: Pods) -> None:
    pod = pods.of("submitter")[0]
    sandbox = pods._sandbox(pod)
    closed, open_ = "/usr/x /etc/x /etc/trainmaster/signing/x /x", "/tmp/x /var/lib/trainmaster/x"
    touch = f"for place in {closed}; do touch $place 2>/dev/null && echo $place; done; touch {open_}"
    ended = subprocess.run([*sandbox, "sh", "-c", touch], env={}, capture_output=True, text=True, check=True)
    assert ended.stdout == ""


def test_one_server_of_nats_may_die(pods: Pods, http: httpx.Client) -> None:
    dead = pods.of("nats")[1]
    dead.end(signal.SIGKILL)
    job, state = run_job(http, "second")
    assert state == "Succeeded"
    pods.start(dead)
    await_("the server is back", lambda: dead.probe("startup"))
    assert log_of(http, job) == b"hello\n"


def test_services_end_well_when_they_are_asked_to(pods: Pods) -> None:
    statuses = {part: [pod.end() for pod in pods.of(part)] for part in (*SERVICES, "agent")}
    assert {status for each in statuses.values() for status in each} == {0}
