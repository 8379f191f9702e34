"""What the templates for DeepSpeed and Colossal-AI ask of a job, and what they fill in."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import InvalidInputError, Violation
from shared.jobspec import validate_job
from tests.support.specs import changed, small_job_document

TEMPLATES = pytest.mark.parametrize("framework", ["deepspeed", "colossalai"])


def template_job(framework: str, *roles: tuple[str, int]) -> dict[str, Any]:
    document = changed(small_job_document(), "/spec/framework", framework)
    listed = [{"name": name, "replicas": n, "instanceType": "cpu-small", "command": "x"} for name, n in roles]
    return changed(document, "/spec/roles", listed)


def violation_of(document: dict[str, Any]) -> Violation:
    with pytest.raises(InvalidInputError) as caught:
        validate_job(document)
    (violation,) = caught.value.violations
    return violation


@TEMPLATES
def test_a_template_job_has_succeeded_when_its_master_has(framework: str) -> None:
    document = template_job(framework, ("worker", 3), ("master", 1))
    assert validate_job(document).spec.completion.succeed_when == "role:master"
    emptied = changed(document, "/spec/completion", {})
    assert validate_job(emptied).spec.completion.succeed_when == "role:master"


@TEMPLATES
def test_what_a_template_job_says_about_its_success_counts(framework: str) -> None:
    document = changed(template_job(framework, ("master", 1), ("worker", 3)), "/spec/completion/succeedWhen", "all")
    assert validate_job(document).spec.completion.succeed_when == "all"


@TEMPLATES
def test_a_master_alone_is_a_job_on_one_node(framework: str) -> None:
    assert validate_job(template_job(framework, ("master", 1))).spec.completion.succeed_when == "role:master"


def test_another_job_with_a_master_waits_for_all() -> None:
    assert validate_job(template_job("other", ("master", 1))).spec.completion.succeed_when == "all"


@TEMPLATES
def test_a_template_job_without_a_master_is_told_so_once(framework: str) -> None:
    violation = violation_of(template_job(framework, ("worker", 2), ("chief", 1)))
    assert (violation.pointer, violation.code) == ("/spec/roles", "no-master")
    assert f"a {framework} job has one role called 'master'" in violation.message
    assert "'worker', 'chief'" in violation.message


@TEMPLATES
def test_a_role_without_a_name_is_no_master(framework: str) -> None:
    assert violation_of(changed(small_job_document(), "/spec/framework", framework)).code == "no-master"


@TEMPLATES
def test_there_is_one_master(framework: str) -> None:
    violation = violation_of(template_job(framework, ("master", 2), ("worker", 1)))
    assert (violation.pointer, violation.code) == ("/spec/roles/0/replicas", "one-master")
    assert "this asks for 2; give 1" in violation.message


@pytest.mark.parametrize("path", ["/job", "/job/hostfile"])
def test_no_mount_of_a_deepspeed_job_hides_its_hostfile(path: str) -> None:
    document = template_job("deepspeed", ("master", 1))
    mount = {"type": "storage", "source": "data", "mountPath": path}
    violation = violation_of(changed(document, "/spec/mounts", [mount]))
    assert (violation.pointer, violation.code) == ("/spec/mounts/0/mountPath", "mount-path-reserved")


@pytest.mark.parametrize("path", ["/job/data", "/jobs", "/mnt/data"])
def test_mounts_beside_the_hostfile_are_accepted(path: str) -> None:
    mount = {"type": "storage", "source": "data", "mountPath": path}
    assert validate_job(changed(template_job("deepspeed", ("master", 1)), "/spec/mounts", [mount]))


def test_other_jobs_may_mount_there() -> None:
    mount = {"type": "storage", "source": "data", "mountPath": "/job"}
    assert validate_job(changed(small_job_document(), "/spec/mounts", [mount]))
