"""What a replica may not do, whatever the admin allows beside."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import PodUser
from services.scheduler.ports.gangs import CodeInline, PoolTerms
from tests.support.gangs import a_gang, environment_of, first_pod

USERS = [PodUser(), PodUser(4711), PodUser(None), PodUser(None, may_be_root=True)]


@pytest.fixture(params=USERS)
def user(request) -> PodUser:
    return request.param


@pytest.fixture
def pod(user: PodUser):
    return first_pod(a_gang(code=CodeInline({"a": "b"})), ObjectSettings(platform_image="p", user=user))


def test_no_container_has_or_gains_a_privilege(pod):
    for each in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_a_pod_has_no_token_and_nothing_of_its_node(pod):
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_no_command_is_run_twice_and_none_is_told_of_services_of_others(pod):
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["enableServiceLinks"] is False


def test_only_an_admin_lets_an_image_be_root(pod, user):
    assert pod["spec"]["securityContext"].get("runAsNonRoot", False) is not user.may_be_root


def test_the_user_id_is_the_admins_or_the_images(pod, user):
    assert pod["spec"]["securityContext"].get("runAsUser") == user.uid


def test_a_pool_may_have_a_user_of_its_own_who_is_never_root(user):
    gang, settings = a_gang(pool=PoolTerms(run_as_user=2000)), ObjectSettings(user=user)
    pod = first_pod(gang, settings)
    context = pod["spec"]["securityContext"]
    assert (context["runAsUser"], context["fsGroup"], context["runAsNonRoot"]) == (2000, 2000, True)
    assert environment_of(gang, settings)["HOME"] == "/tmp"


def test_a_pod_gets_exactly_what_its_replica_was_placed_with():
    resources = first_pod(a_gang(gpus=2))["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": str(1 << 30), "nvidia.com/gpu": "2"}
    assert resources["limits"] == resources["requests"]


def test_gpus_are_asked_for_by_the_name_that_their_model_has():
    set_up = ObjectSettings(gpu_resources={"MI300X": "amd.com/gpu"})
    pod = first_pod(a_gang(gpus=8, gpu_model="MI300X"), set_up)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "8"


def test_what_prepares_a_replica_is_no_larger_than_the_replica_and_gets_no_gpu():
    pod = first_pod(a_gang(gpus=2, code=CodeInline({})), ObjectSettings(platform_image="p"))
    assert pod["spec"]["initContainers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": str(1 << 30)}


def test_shared_memory_is_a_part_of_the_replicas_own():
    (shm,) = (volume for volume in first_pod(a_gang())["spec"]["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": str(1 << 29)}
