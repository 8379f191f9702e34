from __future__ import annotations

import pytest

from trainmaster.errors import InputError
from trainmaster.kinds import APPLICABLE, KINDS, kind_of_argument, kind_of_document


def test_every_kind_is_found_by_all_of_its_names() -> None:
    for kind in KINDS:
        for name in (kind.name, kind.name.lower(), kind.plural, kind.singular, kind.plural.upper()):
            assert kind_of_argument(name) is kind


def test_the_kinds_that_can_be_applied_are_those_of_the_issue() -> None:
    assert {kind.name for kind in APPLICABLE} == {
        "TrainingJob", "Pool", "InstanceType", "Storage", "Dataset", "Model", "Image", "CodeSet", "Secret",
        "Project", "User", "Group", "Rule", "Notification",
    }  # fmt: skip


def test_a_document_names_its_kind_exactly() -> None:
    assert kind_of_document("InstanceType").path == "/v1/instance-types"
    with pytest.raises(InputError, match="did you mean InstanceType"):
        kind_of_document("instancetype")


@pytest.mark.parametrize("name", ["Incident", "Node", None, 3, ["Pool"], ""])
def test_what_cannot_be_applied_is_answered_with_what_can(name: object) -> None:
    with pytest.raises(InputError, match="accepted are TrainingJob, Pool"):
        kind_of_document(name)


def test_a_mistyped_argument_gets_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean datasets"):
        kind_of_argument("datset")
