"""Secrets of a gang."""

from __future__ import annotations

import base64
import json

import pytest

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeInline
from tests.support.gangs import JOB, a_gang, first_pod, objects_of, of_kind

CONFIG = '{"auths": {"registry.example": {"username": "u", "password": "p"}}}'


def test_what_opens_the_registry_is_named_by_every_pod():
    gang = a_gang(image_pull_secret=CONFIG)
    (secret,) = of_kind(gang, "Secret")
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert json.loads(base64.b64decode(secret["data"][".dockerconfigjson"])) == json.loads(CONFIG)
    assert first_pod(gang)["spec"]["imagePullSecrets"] == [{"name": f"{JOB}-1-pull"}]


def test_without_one_pods_name_none():
    assert "imagePullSecrets" not in first_pod(a_gang())["spec"]


def test_what_opens_the_platforms_registry_is_named_by_pods_that_use_its_image_alone():
    closed = ObjectSettings(platform_image="registry.example/trainmaster:1", pull_secrets=("ours",))
    with_code = first_pod(a_gang(code=CodeInline({"a.py": ""}), image_pull_secret=CONFIG), closed)
    assert with_code["spec"]["imagePullSecrets"] == [{"name": f"{JOB}-1-pull"}, {"name": "ours"}]
    assert "imagePullSecrets" not in first_pod(a_gang(), closed)["spec"]


@pytest.mark.parametrize("config", ["", "token", "[]", "{}", '{"auths": {}}', '{"auths": {"r": "x"}}', '{"auths": []}'])
def test_what_opens_no_registry_is_refused_without_being_shown(config):
    with pytest.raises(StartRefusedError, match="dockerconfigjson") as refused:
        objects_of(a_gang(image_pull_secret=config))
    assert "token" not in refused.value.message


def test_more_than_a_secret_holds_is_refused():
    with pytest.raises(StartRefusedError, match="secrets have more than"):
        objects_of(a_gang(secrets={f"S{number}": "x" * 64_000 for number in range(20)}))
