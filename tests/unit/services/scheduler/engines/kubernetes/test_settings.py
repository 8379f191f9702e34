"""What an admin says in variables, and what becomes of it."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.objects.settings import (
    Egress,
    ObjectSettings,
    PodUser,
    S3Volumes,
    Toleration,
)
from services.scheduler.engines.kubernetes.settings import KubernetesSettings
from shared.settings import read_settings
from shared.variables import SettingsError


def settings_of(**variables: str) -> ObjectSettings:
    named = {f"TRAINMASTER_KUBE_{name.upper()}": value for name, value in variables.items()}
    return read_settings(KubernetesSettings, named).objects("main")


def test_without_a_word_everything_is_as_safe_as_it_can_be():
    assert settings_of() == ObjectSettings(cluster="main")


@pytest.mark.parametrize(
    ("text", "user"),
    [("4711", PodUser(4711)), ("image", PodUser(None)), ("root", PodUser(None, may_be_root=True))],
)
def test_the_user_of_commands(text: str, user: PodUser):
    assert settings_of(run_as=text).user == user


def test_a_namespace_for_all_or_one_a_project():
    assert settings_of(namespace="jobs").namespaces.of("vision") == "jobs"
    assert settings_of(namespace_prefix="jobs-").namespaces.of("vision") == "jobs-vision"


def test_networks():
    assert settings_of(egress="none").egress.networks == ()
    assert settings_of(egress="10.0.0.0/8, fd00::/8", egress_except="none").egress == Egress(
        ("10.0.0.0/8", "fd00::/8"), ()
    )


def test_gpus_by_model_whatever_is_in_its_name():
    found = settings_of(gpu_resources="AMD Instinct MI300X=amd.com/gpu,x=y=example.com/x")
    assert found.gpu_resource("AMD Instinct MI300X") == "amd.com/gpu"
    assert found.gpu_resource("NVIDIA H200") == "nvidia.com/gpu"


def test_taints_as_kubectl_writes_them():
    assert settings_of(tolerations="a=b:NoSchedule,c:NoExecute,d").tolerations == (
        Toleration("a", "b", "NoSchedule"),
        Toleration("c", "", "NoExecute"),
        Toleration("d"),
    )


def test_secrets_that_open_a_registry():
    assert settings_of(pull_secrets="a, b.c").pull_secrets == ("a", "b.c")


def test_data():
    found = settings_of(
        host_prefixes="/srv/data/:/mnt",
        nfs="true",
        s3_claims="b=claim",
        s3_driver="d",
        s3_attributes='{"x": "{bucket}"}',
    ).volumes
    assert found.host_prefixes == ("/srv/data", "/mnt")
    assert found.nfs
    assert found.s3 == S3Volumes({"b": "claim"}, "d", {"x": "{bucket}"})


@pytest.mark.parametrize(
    "variable",
    [
        {"run_as": "0"},
        {"run_as": "nobody"},
        {"namespace": "Jobs"},
        {"namespace_prefix": "-x"},
        {"code_url": "scheduler:8080"},
        {"pull_secrets": "a_b"},
        {"egress": "everything"},
        {"gpu_resources": "H200"},
        {"gpu_resources": "H200=nvidia.com/"},
        {"tolerations": "a=b:Never"},
        {"tolerations": "=b"},
        {"host_prefixes": "srv"},
        {"host_prefixes": "/"},
        {"host_prefixes": "/srv/../etc"},
        {"s3_claims": "bucket"},
        {"s3_attributes": "[]"},
        {"s3_attributes": '{"a": 1}'},
        {"s3_attributes": "{"},
        {"shm_percent": "0"},
    ],
)
def test_what_is_wrong_is_told_with_its_variable(variable: dict[str, str]):
    with pytest.raises(SettingsError, match=f"TRAINMASTER_KUBE_{next(iter(variable)).upper()}: "):
        settings_of(**variable)
