"""What helm makes of the chart: valid for Kubernetes, with no more rights than each part needs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from deploy.helm.__main__ import CHART, generated, main, password_variable
from deploy.nats.config import users
from deploy.nats.rights import RIGHTS
from deploy.variables import READ_BY
from services.scheduler.engines.kubernetes.objects.security import pod_security_level
from services.scheduler.engines.kubernetes.settings import KubernetesSettings
from shared.auth.keys import KeySet, SigningKey
from shared.vault import Keyring
from tests.support.helm import (
    EVERYTHING,
    KUBERNETES,
    WORKLOADS,
    HelmError,
    Manifest,
    helm,
    named,
    of_kind,
    pod_of,
    render,
)

OF_OTHERS = {"HTTPRoute", "ServiceMonitor", "Certificate"}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "everything": EVERYTHING,
    "one server": {"nats": {"replicas": 1}, "agent": {"enabled": False}, "networkPolicy": {"enabled": False}},
    "secrets of others": {
        "nats": {"existingPasswordsSecret": "p", "tls": {"mode": "existing", "existingSecret": "t"}},
        "keys": {"existingSigningSecret": "s", "existingSealingSecret": "k"},
        "admin": {"existingSecret": "a"},
    },
    "a namespace a project": {"jobs": {"namespacePrefix": "tm-", "exec": False}},
    "a backup is restored": {"backup": {"enabled": True}, "restore": "2030-01-01T00-00-00.000Z"},
    "certificates of cert-manager": {"nats": {"tls": {"mode": "certManager", "issuerRef": {"name": "ours"}}}},
}


@pytest.fixture(scope="module", params=VARIANTS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return render(VARIANTS[request.param])


@pytest.fixture(scope="module")
def plain() -> list[Manifest]:
    return render()


def containers(manifests: list[Manifest]) -> Iterator[Manifest]:
    for workload in of_kind(manifests, *WORKLOADS):
        pod = pod_of(workload)
        yield from (*pod.get("initContainers", ()), *pod["containers"])


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_valid_for_kubernetes(manifests: list[Manifest], version: str) -> None:
    for manifest in manifests:
        if manifest["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_helm_finds_nothing_to_complain_of() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), values=EVERYTHING)


def test_no_object_stands_twice(manifests: list[Manifest]) -> None:
    names = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests]
    assert len(names) == len(set(names))


def test_only_scheduler_and_agent_get_a_token(manifests: list[Manifest]) -> None:
    with_token = {
        workload["metadata"]["labels"]["app.kubernetes.io/component"]
        for workload in of_kind(manifests, *WORKLOADS)
        if pod_of(workload)["automountServiceAccountToken"]
    }
    assert with_token - {"agent", "agent-gpus"} == {"scheduler"}
    assert not any(account["automountServiceAccountToken"] for account in of_kind(manifests, "ServiceAccount"))


def writes(role: Manifest) -> set[str]:
    rules = [rule for rule in role["rules"] if not set(rule["verbs"]) <= {"get", "list", "watch"}]
    return {resource for rule in rules for resource in rule["resources"]}


def test_rights_go_to_scheduler_and_agent_and_those_to_write_to_the_scheduler_for_gangs(plain: list[Manifest]) -> None:
    bindings = of_kind(plain, "RoleBinding", "ClusterRoleBinding")
    holders = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert holders == {"tm-trainmaster-scheduler", "tm-trainmaster-agent"}
    everywhere = {verb for role in of_kind(plain, "ClusterRole") for rule in role["rules"] for verb in rule["verbs"]}
    assert everywhere == {"list", "watch"}
    (gangs,) = of_kind(plain, "Role")
    assert gangs["metadata"]["namespace"] == "trainmaster-jobs"
    objects = {"pods", "pods/exec", "configmaps", "services", "secrets", "networkpolicies"}
    assert writes(gangs) == objects
    assert [rule["verbs"] for rule in gangs["rules"] if "events" in rule["resources"]] == [["list"]]


def test_no_role_has_a_wildcard_or_lists_secrets(manifests: list[Manifest]) -> None:
    for role in of_kind(manifests, "Role", "ClusterRole"):
        for rule in role["rules"]:
            assert not any("*" in values for values in rule.values())
            assert "secrets" not in rule["resources"] or not {"list", "watch"} & set(rule["verbs"])


def test_projects_with_namespaces_of_their_own_need_rights_in_all_of_them() -> None:
    manifests = render(VARIANTS["a namespace a project"])
    assert not of_kind(manifests, "Role", "RoleBinding", "Namespace")
    assert "namespaces" in writes(named(manifests, "ClusterRole", "tm-trainmaster-scheduler-tm-gangs"))


@pytest.mark.parametrize(
    ("allowed", "level"),
    [
        ({}, "restricted"),
        ({"TRAINMASTER_KUBE_RUN_AS": "image", "TRAINMASTER_KUBE_NFS": "false"}, "restricted"),
        ({"TRAINMASTER_KUBE_NFS": True}, "baseline"),
        ({"TRAINMASTER_KUBE_RUN_AS": "root"}, "baseline"),
        ({"TRAINMASTER_KUBE_HOST_PREFIXES": "/data", "TRAINMASTER_KUBE_NFS": "true"}, "privileged"),
    ],
)
def test_the_namespace_of_jobs_has_the_level_that_a_scheduler_with_these_variables_gives_it(
    allowed: dict[str, Any], level: str
) -> None:
    (made,) = of_kind(render({"scheduler": {"env": allowed}}), "Namespace")
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level
    settings = {name.removeprefix("TRAINMASTER_").lower(): value for name, value in allowed.items()}
    assert pod_security_level(KubernetesSettings.model_validate(settings).objects("main")) == level


def test_a_level_that_is_given_for_the_namespace_of_jobs_is_taken() -> None:
    (made,) = of_kind(render({"jobs": {"podSecurity": "baseline"}}), "Namespace")
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"


def test_pods_run_without_privileges(manifests: list[Manifest]) -> None:
    for workload in of_kind(manifests, *WORKLOADS):
        pod = pod_of(workload)
        is_agent = workload["kind"] == "DaemonSet"
        assert pod["securityContext"].get("runAsNonRoot", False) is not is_agent
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostIPC"}
        assert "hostPID" not in pod or is_agent
    for container in containers(manifests):
        security = dict(container["securityContext"])
        assert security.pop("capabilities")["drop"] == ["ALL"]
        assert security == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "privileged": False}
        assert container["resources"]["limits"]["memory"]


def test_the_private_key_and_every_password_reach_their_owner_alone(plain: list[Manifest]) -> None:
    holders: dict[str, set[str]] = {}
    for workload in of_kind(plain, *WORKLOADS):
        component = workload["metadata"]["labels"]["app.kubernetes.io/component"]
        pod = pod_of(workload)
        volumes = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        for volume in volumes:
            for item in volume.get("items", ({"key": "*"},)):
                holders.setdefault(f"{volume['secretName']}/{item['key']}", set()).add(component)
        for variable in pod["containers"][0]["env"]:
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                holders.setdefault(f"{reference['name']}/{reference['key']}", set()).add(component)
    assert holders["tm-trainmaster-signing-key/signing-key.pem"] == {"submitter"}
    assert holders["tm-trainmaster-nats-tls/*"] == {"nats"}
    assert holders["tm-trainmaster-secret-keys/secret-keys.json"] == {"submitter", "scheduler", "watchdog"}
    for user in ("submitter", "scheduler", "watchdog", "diagnoser", "logs", "agent"):
        assert holders[f"tm-trainmaster-nats-passwords/{user}"] == {user, "nats"}
    assert holders["tm-trainmaster-nats-passwords/platform"] == {"provision", "nats"}


def test_keys_that_helm_makes_can_be_used(plain: list[Manifest]) -> None:
    def secret(name: str) -> dict[str, str]:
        data = named(plain, "Secret", f"tm-trainmaster-{name}")["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    signing = secret("signing-key")
    assert list(KeySet.load(signing["certificates.pem"]).keys) == [SigningKey.load(signing["signing-key.pem"]).kid]
    ring = Keyring.load(secret("secret-keys")["secret-keys.json"])
    assert ring.open("secret-1", ring.seal("secret-1", "value")) == "value"
    passwords = secret("nats-passwords")
    assert passwords.keys() == RIGHTS.keys()
    assert all(password.isalnum() and password[0].isalpha() for password in passwords.values())
    assert len(set(passwords.values())) == len(RIGHTS)


def test_users_of_nats_have_the_rights_that_they_have_on_one_machine(plain: list[Manifest]) -> None:
    text = named(plain, "ConfigMap", "tm-trainmaster-nats")["data"]["nats-users.conf"]
    for user in RIGHTS:
        text = text.replace(f"${password_variable(user)},", f'"secret-of-{user}",')
    assert text.strip().splitlines() == [
        "users = [",
        *users({user: json.dumps(f"secret-of-{user}") for user in RIGHTS}),
        "]",
    ]


def test_generated_files_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["--check"]) is None
    monkeypatch.setitem(RIGHTS, "stranger", RIGHTS["billing"])  # type: ignore[arg-type]
    monkeypatch.setitem(READ_BY, "stranger", READ_BY["agent"])  # type: ignore[misc]
    complaint = main(["--check"])
    assert complaint is not None
    assert all(str(file) in complaint for file in generated())


def test_nothing_but_nats_and_the_agent_runs_while_a_backup_is_restored() -> None:
    manifests = render(VARIANTS["a backup is restored"])
    counts = {m["metadata"]["name"]: m["spec"]["replicas"] for m in of_kind(manifests, "Deployment", "StatefulSet")}
    assert counts.pop("tm-trainmaster-nats") == 3
    assert set(counts.values()) == {0}
    (job,) = of_kind(manifests, "Job")
    (container,) = pod_of(job)["containers"]
    assert container["command"][-2:] == ["restore", "/backups/2030-01-01T00-00-00.000Z"]


def test_every_service_is_reached_by_one_prefix_from_one_place(manifests: list[Manifest]) -> None:
    services = {service["metadata"]["name"] for service in of_kind(manifests, "Service")}
    for route in of_kind(manifests, "HTTPRoute"):
        paths = [match["path"]["value"] for rule in route["spec"]["rules"] for match in rule["matches"]]
        targets = {ref["name"] for rule in route["spec"]["rules"] for ref in rule["backendRefs"]}
        assert len(paths) == len(set(paths))
        assert targets < services
        (ingress,) = of_kind(manifests, "Ingress")
        (rule,) = ingress["spec"]["rules"]
        assert sorted(each["path"] for each in rule["http"]["paths"]) == sorted(paths)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"natss": {}}, "additional properties 'natss' not allowed"),
        ({"watchdog": {"replicas": 2}}, "at '/watchdog/replicas': value must be 1"),
        ({"nats": {"replicas": 2}}, "at '/nats/replicas'"),
        (
            {"scheduler": {"env": {"TRAINMASTER_S3_KEY": "x"}}},
            "scheduler does not read TRAINMASTER_S3_KEY; there is: TRAINMASTER_S3_ENDPOINT, TRAINMASTER_S3_KEY_ID",
        ),
        (
            {"logs": {"env": {"TRAINMASTER_KUBE_NFS": "true"}}},
            "logs.env: logs does not read TRAINMASTER_KUBE_NFS; it is for: scheduler",
        ),
        ({"agent": {"env": {"TRAINMASTER_X_Y": ""}}}, "agent.env: agent does not read TRAINMASTER_X_Y; see docs"),
        ({"nats": {"replicas": 1, "logReplicas": 3}}, "no more servers than nats.replicas says"),
        ({"nats": {"storage": {"size": "3Gi"}}}, "nats.storage.size must be 4Gi or more"),
        ({"networkPolicy": {"gateway": []}}, "at '/networkPolicy/gateway'"),
        ({"logs": {"replicas": 2}}, "set logs.persistence.accessMode to ReadWriteMany"),
        ({"logs": {"archive": "s3://b/p"}}, "s3.existingSecret must name the Secret"),
        ({"gateway": {"enabled": True}}, "gateway.parentRefs must name the Gateway"),
        ({"restore": "2030-01-01T00-00-00.000Z"}, "so backup.enabled must be true"),
        ({"ingress": {"enabled": True}}, "ingress.host must be the name"),
        ({"nats": {"tls": {"mode": "existing"}}}, "nats.tls.existingSecret must name the Secret"),
        ({"agent": {"gpus": {"nodeSelector": {"nvidia.com/gpu.present": None}}}}, "at '/agent/gpus/nodeSelector'"),
        ({"agent": {"infiniband": {"resource": "hca"}}}, "at '/agent/infiniband/resource'"),
        ({"agent": {"directories": ["data"]}}, "at '/agent/directories/0'"),
        ({"agent": {"image": {"name": "x"}}}, "at '/agent/image'"),
        ({"nats": {"tls": {"mode": "certManager"}}}, "nats.tls.issuerRef must name the issuer"),
    ],
)
def test_wrong_values_are_refused_with_what_would_be_right(values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError) as raised:
        render(values)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "component"), [("Deployment", "scheduler"), ("StatefulSet", "logs"), ("DaemonSet", "agent")]
)
def test_variables_of_the_values_take_the_place_of_the_charts_own(kind: str, component: str) -> None:
    chosen = {"TRAINMASTER_LOG_LEVEL": "DEBUG", "TRAINMASTER_HOME": "/elsewhere", "OF_OURS": True}
    pod = pod_of(named(render({component: {"env": chosen}}), kind, f"tm-trainmaster-{component}"))
    variables = pod["containers"][0]["env"]
    given = {each["name"]: each.get("value") for each in variables}
    assert len(given) == len(variables), "server-side apply refuses a name that is there twice"
    assert [given[name] for name in chosen] == ["DEBUG", "/elsewhere", "true"]
    assert given["TRAINMASTER_NATS_USER"] == component
