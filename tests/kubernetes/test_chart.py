"""The chart on a real cluster: helm installs, upgrades and removes it, and what must be denied is denied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from services.scheduler.ports.gangs import CodeInline
from shared.kubernetes.access import connect
from tests.support.helm import WORKLOADS
from tests.support.kubernetes.clusters import a_cluster
from tests.support.kubernetes.engines import belongings, engine_on, gang_on, kubelets, settings_for, until_left
from tests.support.kubernetes.installation import Installation, installed
from tests.support.platform import await_

SCHEDULER, AGENT = "tm-trainmaster-scheduler", "tm-trainmaster-agent"


@pytest.fixture
def installation() -> Iterator[Installation]:
    with installed() as found:
        yield found


def test_keys_and_passwords_outlive_upgrades_and_removal(installation: Installation) -> None:
    made = installation.secrets()
    assert set(made) == {f"tm-trainmaster-{each}" for each in ("admin", "nats-passwords", "nats-tls")} | {
        "tm-trainmaster-signing-key",
        "tm-trainmaster-secret-keys",
    }
    installation.install("upgrade", values=[{"submitter": {"replicas": 2}}])
    assert installation.secrets() == made
    installation.helm("uninstall", "tm")
    assert installation.secrets() == made
    installation.install()
    assert installation.secrets() == made


def test_another_number_of_servers_of_nats_is_refused_while_there_are_volumes_of_those_that_were(
    installation: Installation,
) -> None:
    def volumes() -> list[str]:
        return installation.run("kubectl", "get", "pvc", "--output", "name").stdout.split()

    await_("the claims of three servers", lambda: sum("/data-tm-trainmaster-nats-" in each for each in volumes()) == 3)
    installation.install("upgrade")
    with pytest.raises(AssertionError, match=r"volumes of 3 servers"):
        installation.install("upgrade", values=[{"nats": {"replicas": 1}}])
    installation.helm("uninstall", "tm")
    installation.run("kubectl", "delete", "pvc", "--all", "--wait=false")
    await_("no claims", lambda: not any("/data-" in each for each in volumes()))
    installation.install(values=[{"nats": {"replicas": 1}}])


def test_other_namespaces_of_jobs_are_refused_while_there_are_gangs(installation: Installation) -> None:
    elsewhere = {"jobs": {"namespace": f"{installation.jobs}-2", "createNamespace": False}}
    labels = ("trainmaster.dev/gang=tj-a-1", "trainmaster.dev/cluster=main")
    installation.run("kubectl", "create", "configmap", "tj-a-1", "--namespace", installation.jobs)
    installation.run("kubectl", "label", "configmap", "tj-a-1", *labels, "--namespace", installation.jobs)
    for jobs in (elsewhere, {"jobs": {"namespacePrefix": "tm-"}}):
        with pytest.raises(AssertionError, match=r"must stay as they were while there are gangs \(tj-a-1 in"):
            installation.install("upgrade", values=[jobs])
    installation.install("upgrade")
    installation.run("kubectl", "delete", "configmap", "tj-a-1", "--namespace", installation.jobs)
    installation.run("kubectl", "create", "namespace", f"{installation.jobs}-2")
    try:
        installation.install("upgrade", values=[elsewhere])
    finally:
        installation.run("kubectl", "delete", "namespace", f"{installation.jobs}-2", "--wait=false")


def test_each_account_may_do_what_it_must_and_nothing_else(installation: Installation) -> None:
    jobs, own = installation.jobs, installation.namespace
    assert installation.may(SCHEDULER, "create", "pods", jobs)
    assert installation.may(SCHEDULER, "create", "pods/exec", jobs)
    assert installation.may(SCHEDULER, "list", "events", jobs)
    assert installation.may(SCHEDULER, "list", "nodes", own)
    assert installation.may(AGENT, "watch", "pods", jobs)
    denied = [
        *((SCHEDULER, "create", each, own) for each in ("pods", "secrets", "configmaps")),
        *((SCHEDULER, verb, "secrets", where) for verb in ("list", "watch") for where in (jobs, own)),
        (SCHEDULER, "get", "secrets", own),
        *((SCHEDULER, verb, "nodes", own) for verb in ("get", "delete")),
        (AGENT, "get", "pods", jobs),
        *((SCHEDULER, verb, "events", jobs) for verb in ("get", "watch", "create", "delete")),
        (SCHEDULER, "list", "events", own),
        *((SCHEDULER, verb, "pods/exec", own) for verb in ("get", "create")),
        *(
            (SCHEDULER, "create", each, jobs)
            for each in ("roles", "rolebindings", "serviceaccounts/token", "pods/binding")
        ),
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


async def test_the_schedulers_account_is_enough_for_gangs_from_start_to_removal(
    installation: Installation, tmp_path: Path
) -> None:
    known = yaml.safe_load(installation.kubeconfig.read_text())
    token = installation.run("kubectl", "create", "token", SCHEDULER).stdout.strip()
    known["users"] = [{**user, "user": {"token": token}} for user in known["users"]]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(known))
    async with a_cluster("cluster", tmp_path) as cluster, kubelets(cluster, "a"):
        jobs = replace(cluster, namespace=installation.jobs)
        gang = replace(gang_on(cluster, "a"), code=CodeInline({"a.py": ""}), secrets={"TOKEN": "x"})
        before = await belongings(jobs)
        api = await connect(kubeconfig=str(kubeconfig))
        async with engine_on(jobs, settings_for(cluster, installation.jobs), api=api) as desk:
            await desk.engine.start(gang)
            await desk.started(gang)
            await desk.engine.start(gang)
            await desk.engine.stop(gang.id, 1)
            assert {end.cause for end in await desk.exits(gang)} == {"stopped"}
            await desk.engine.forget(gang.id)
            await until_left(jobs, before)


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
