"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.agent.settings import KubernetesSettings, Settings


def test_variables_are_read_and_the_password_is_not_shown():
    settings = Settings.from_environment(
        {
            "TRAINMASTER_HOME": "/srv/tm",
            "TRAINMASTER_NATS_URL": "nats://nats:4222",
            "TRAINMASTER_NATS_USER": "agent-7",
            "TRAINMASTER_NATS_PASSWORD": "hunter2",
            "TRAINMASTER_MACHINE": "m7",
        }
    )
    expected = Settings(Path("/srv/tm"), "nats://nats:4222", "agent-7", "hunter2", "m7")
    assert settings == expected
    assert "hunter2" not in repr(settings)
    assert (settings.gangs, settings.state) == (Path("/srv/tm/gangs"), Path("/srv/tm/agent"))


def test_what_is_not_set_has_its_default():
    assert Settings.from_environment({}) == Settings(Path.home() / ".trainmaster")


def test_on_kubernetes_the_machine_is_named_by_cluster_and_node():
    given = {
        "TRAINMASTER_AGENT_SOURCE": "kubernetes",
        "TRAINMASTER_NODE_NAME": "gpu-7",
        "TRAINMASTER_CLUSTER": "east",
        "TRAINMASTER_POD_LOGS": "/host/pods",
    }
    settings = Settings.from_environment(given)
    assert settings.machine == "east.gpu-7"
    assert settings.kubernetes == KubernetesSettings("gpu-7", "east", pod_logs=Path("/host/pods"))


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, {"jobs", "tm-vision", "other"}),
        ({"TRAINMASTER_KUBE_NAMESPACE": "jobs"}, {"jobs"}),
        ({"TRAINMASTER_KUBE_NAMESPACE": "jobs", "TRAINMASTER_KUBE_NAMESPACE_PREFIX": "tm-"}, {"tm-vision"}),
    ],
)
def test_pods_count_where_the_scheduler_puts_gangs(given: dict[str, str], seen: set[str]):
    kind = {"TRAINMASTER_AGENT_SOURCE": "kubernetes", "TRAINMASTER_NODE_NAME": "gpu-7"}
    settings = Settings.from_environment({**kind, **given}).kubernetes
    assert {name for name in ("jobs", "tm-vision", "other") if settings.namespaces.have(name)} == seen


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"TRAINMASTER_AGENT_SOURCE": "docker"}, "TRAINMASTER_AGENT_SOURCE: 'docker' is none of local, kubernetes"),
        ({"TRAINMASTER_AGENT_SOURCE": "kubernetes"}, "TRAINMASTER_NODE_NAME"),
        ({"TRAINMASTER_LOG_LEVEL": "LOUD"}, "'LOUD' is none of DEBUG, INFO, WARNING, ERROR"),
        (
            {"TRAINMASTER_NODENAME": "gpu-7"},
            "NODENAME: there is no such variable; give TRAINMASTER_NODE_NAME",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: dict[str, str], wrong: str):
    with pytest.raises(SystemExit, match=wrong):
        Settings.from_environment(given)
