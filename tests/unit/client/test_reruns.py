"""The document that submits a job once more."""

from __future__ import annotations

import pytest

from tests.support.job_documents import job_document
from trainmaster.changes import parse_change
from trainmaster.errors import InputError
from trainmaster.reruns import rerun_document


def test_spec_project_and_labels_stay_and_the_name_is_made_of_the_old_one() -> None:
    job = job_document()
    document = rerun_document(job)
    assert document["spec"] == job["spec"]
    assert document["metadata"] == {
        "generateName": "mnist-ddp-",
        "project": job["metadata"]["project"],
        "labels": job["metadata"]["labels"],
    }
    assert "status" not in document


def test_names_of_reruns_do_not_grow() -> None:
    job = job_document()
    job["metadata"] |= {"generateName": "sweep-", "name": "sweep-ab3de"}
    assert rerun_document(job)["metadata"]["generateName"] == "sweep-"


def test_a_long_name_leaves_room_for_what_is_added() -> None:
    job = job_document()
    job["metadata"]["name"] = "x" * 128
    assert rerun_document(job)["metadata"]["generateName"] == "x" * 122 + "-"


def test_a_name_may_be_given() -> None:
    assert rerun_document(job_document(), name="again")["metadata"]["name"] == "again"


def test_changes_are_made() -> None:
    document = rerun_document(job_document(), [parse_change("spec.roles.0.replicas=8")])
    assert document["spec"]["roles"][0]["replicas"] == 8


@pytest.mark.parametrize("text", ["status.state=Running", "roles.0.replicas=2", "spec={}", "metadata.name=x"])
def test_only_what_a_user_writes_can_be_changed(text: str) -> None:
    with pytest.raises(InputError):
        rerun_document(job_document(), [parse_change(text)])
