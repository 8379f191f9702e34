"""What helm makes of a platform of several clusters."""

from __future__ import annotations

import kubernetes_validate
import pytest

from tests.support.gateway import routes
from tests.support.helm import KUBERNETES, WORKLOADS, HelmError, named, of_kind, pod_of, render

CHOSEN = {"contexts": "main=in-cluster,east=prod-us", "kubeconfigSecret": "clusters"}


def test_a_scheduler_of_several_clusters_has_their_kubeconfig() -> None:
    pod = pod_of(named(render({"clusters": CHOSEN}), "Deployment", "tm-trainmaster-scheduler"))
    given = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert given["TRAINMASTER_KUBE_CONTEXTS"] == "main=in-cluster,east=prod-us"
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "clusters"]
    assert given["KUBECONFIG"] == f"{mount['mountPath']}/kubeconfig"
    with pytest.raises(HelmError, match=r"clusters\.kubeconfigSecret must name the Secret"):
        render({"clusters": {"contexts": "main=in-cluster"}})


def test_pods_of_other_clusters_reach_the_code_that_is_kept_for_them_by_way_of_the_gateway() -> None:
    gateway = {"gateway": {"enabled": True, "parentRefs": [{"name": "public"}]}}
    assert routes(render({"clusters": CHOSEN, **gateway}))["/v1/gang-code"] == "tm-trainmaster-scheduler"
    assert "/v1/gang-code" not in routes(render(gateway))


def test_a_further_cluster_gets_the_agent_and_the_schedulers_rights_alone() -> None:
    tls = {"mode": "existing", "existingSecret": "nats-ca"}
    found = render(
        {
            "cluster": "east",
            "clusters": {"natsUrl": "nats://nats.example:4222"},
            "nats": {"existingPasswordsSecret": "nats", "tls": tls},
        }
    )
    assert {each["kind"] for each in of_kind(found, *WORKLOADS)} == {"DaemonSet"}
    kinds = {"Namespace", "ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert {each["kind"] for each in found} == {"DaemonSet", "NetworkPolicy", *kinds}
    (agent,) = of_kind(found, "DaemonSet")
    given = {each["name"]: each.get("value") for each in pod_of(agent)["containers"][0]["env"]}
    assert given["TRAINMASTER_NATS_URL"] == "nats://nats.example:4222"
    assert given["TRAINMASTER_CLUSTER"] == "east"
    (token,) = of_kind(found, "Secret")
    account = token["metadata"]["annotations"]["kubernetes.io/service-account.name"]
    bound = {each["subjects"][0]["name"] for each in of_kind(found, "RoleBinding", "ClusterRoleBinding")}
    assert account in {each["metadata"]["name"] for each in of_kind(found, "ServiceAccount")}
    assert bound == {account, "tm-trainmaster-agent"}
    for manifest in found:
        kubernetes_validate.validate(manifest, KUBERNETES[-1], strict=True)
