"""How code comes into a pod."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import VolumeSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeArchive, CodeDirectory, CodeInline, CodePacked, CodeUpload
from tests.support.gangs import JOB, a_gang, container, first_pod, objects_of, of_kind

SET_UP = ObjectSettings(
    platform_image="platform:1", code_url="http://scheduler:8080/", volumes=VolumeSettings(("/srv/team",))
)


def arguments(gang) -> list[str]:
    return container(first_pod(gang, SET_UP), "code")["command"][3:]


def test_code_is_laid_by_the_platforms_image_and_the_command_starts_in_it():
    pod = first_pod(a_gang(code=CodeInline({"train.py": "print()"})), SET_UP)
    assert container(pod, "code")["image"] == "platform:1"
    assert container(pod)["workingDir"] == "/code"
    assert {"name": "code", "mountPath": "/code"} in container(pod)["volumeMounts"]


@pytest.mark.parametrize("code", [CodeInline({"train.py": "print()"}), CodePacked(b"archive")])
def test_small_code_lies_in_a_config_map_that_only_the_init_container_sees(code):
    gang = a_gang(code=code)
    config_map = next(
        each for each in of_kind(gang, "ConfigMap", SET_UP) if each["metadata"]["name"] == f"{JOB}-1-code"
    )
    assert base64.b64decode(config_map["binaryData"]["archive.tar.gz"])
    assert arguments(gang) == ["archive", "/mnt/input/archive.tar.gz", "/code"]
    assert "code-input" not in [mount["name"] for mount in container(first_pod(gang, SET_UP))["volumeMounts"]]


def test_large_code_is_fetched_with_a_ticket():
    gang = a_gang(code=CodeUpload("sha256:12", "billet"))
    assert arguments(gang) == ["url", f"http://scheduler:8080/v1/gang-code/{JOB}-1", "sha256:12", "/code"]
    (_, ticket) = container(first_pod(gang, SET_UP), "code")["env"]
    assert ticket["valueFrom"]["secretKeyRef"] == {"name": f"{JOB}-1-code", "key": "TM_CODE_TICKET"}


def test_a_directory_is_copied_from_below_the_root_that_an_admin_allowed():
    gang = a_gang(code=CodeDirectory(Path("/srv/team/src/a"), Path("/srv/team")))
    assert arguments(gang) == ["directory", "/mnt/input", "/code"]
    mount = next(each for each in container(first_pod(gang, SET_UP), "code")["volumeMounts"] if each["name"] != "code")
    assert mount == {"name": "code-input", "mountPath": "/mnt/input", "subPath": "src/a", "readOnly": True}


@pytest.mark.parametrize(
    ("code", "set_up", "sentence"),
    [
        (CodeUpload("sha256:12", "t"), ObjectSettings(platform_image="p"), "TRAINMASTER_KUBE_CODE_URL"),
        (CodeInline({}), ObjectSettings(), "was not told which"),
        (CodeDirectory(Path("/home/x")), SET_UP, "lies in no directory of nodes"),
        (CodeArchive(Path("/x")), SET_UP, "cannot be laid in a pod"),
    ],
)
def test_what_cannot_be_laid_is_refused_before_anything_is_made(code, set_up, sentence):
    with pytest.raises(StartRefusedError, match=sentence):
        objects_of(a_gang(code=code), set_up)


def test_without_code_nothing_prepares_the_pod():
    pod = first_pod(a_gang(), ObjectSettings())
    assert pod["spec"]["initContainers"] == []
    assert "workingDir" not in container(pod)
