"""What stands in ConfigMaps, what in pods, and that replicas get every text as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import PodUser
from tests.support.gangs import (
    SETTINGS,
    a_gang,
    common_of,
    container,
    environment_of,
    first_pod,
    objects_of,
    of_kind,
    variables,
)


def test_what_all_replicas_have_alike_stands_once_and_the_rest_in_each_pod():
    gang = a_gang({"master": 1, "worker": 2})
    assert common_of(gang)["WORLD_SIZE"] == "3"
    assert {"RANK", "TM_ROLE", "VC_TASK_INDEX"} <= variables(first_pod(gang)).keys()
    assert not common_of(gang).keys() & variables(first_pod(gang)).keys()


def test_each_replica_has_all_of_its_environment():
    env = {"X": "y", "HOME": "/h", "USER": "u"}
    gang = a_gang({"master": 1, "worker": 3}, env=env)
    for replica in gang.replicas:
        pod = objects_of(gang).pod(replica, "uid")
        assert common_of(gang) | variables(pod) == {**replica.env, "NVIDIA_VISIBLE_DEVICES": "void"}


def test_what_kubernetes_would_replace_in_a_pods_texts_is_escaped_there_alone():
    gang = a_gang({"worker": 1}, env={"A": "$(HOME) $$"})
    assert common_of(gang)["A"] == "$(HOME) $$"
    pod = first_pod(a_gang({"worker": 2}, command="echo $(hostname) $$ $RANK"))
    assert container(pod)["command"][-1] == "echo $$(hostname) $$$$ $$RANK"


def test_no_pod_has_the_host_lists_of_its_gang():
    gang = a_gang({f"role-{number}": 100 for number in range(3)})
    assert "VC_ROLE_0_HOSTS" in common_of(gang)
    assert "VC_ROLE_0_HOSTS" not in variables(first_pod(gang))


def test_a_user_id_that_the_image_does_not_know_has_a_home_and_a_name():
    assert common_of(a_gang())["HOME"] == "/tmp"
    assert common_of(a_gang())["USER"]
    of_image = ObjectSettings(user=PodUser(None))
    assert not {"HOME", "USER"} & environment_of(a_gang(), of_image).keys()


def test_the_jobs_own_home_counts():
    assert environment_of(a_gang(env={"HOME": "/mnt/home"}))["HOME"] == "/mnt/home"


def test_what_only_some_replicas_are_given_stands_in_their_pods():
    gang = a_gang({"worker": 2})
    first = replace(gang.replicas[0], gpus=1)
    mixed = replace(gang, replicas=(first, *gang.replicas[1:]))
    assert "NVIDIA_VISIBLE_DEVICES" not in common_of(mixed)
    shown = [variables(objects_of(mixed).pod(each, "uid")).get("NVIDIA_VISIBLE_DEVICES") for each in mixed.replicas]
    assert shown == [None, "void"]


@pytest.mark.parametrize(("gpus", "seen"), [(0, "void"), (1, None)])
def test_a_replica_without_gpus_sees_none_of_the_nodes(gpus: int, seen: str | None):
    assert environment_of(a_gang(gpus=gpus), SETTINGS).get("NVIDIA_VISIBLE_DEVICES") == seen


@pytest.mark.parametrize("gpus", [0, 1])
def test_no_job_says_which_devices_its_node_shows_it(gpus: int):
    name = "NVIDIA_VISIBLE_DEVICES"
    gang = a_gang({"worker": 2}, gpus=gpus, env={name: "all"}, secrets={name: "all"})
    assert environment_of(gang).get(name) == (None if gpus else "void")
    assert of_kind(gang, "Secret") == []
