"""What `--set PATH=VALUE` means."""

from __future__ import annotations

from typing import Any

import pytest

from trainmaster.changes import Change, changed, parse_change
from trainmaster.errors import InputError

DOCUMENT: dict[str, Any] = {"spec": {"roles": [{"replicas": 1}], "env": {"LR": "1"}, "code": {"inline": {"a.py": "x"}}}}


def made(*texts: str) -> Any:
    return changed(DOCUMENT, map(parse_change, texts))["spec"]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("spec.priority=7", Change(("spec", "priority"), 7)),
        ("spec.roles.0.command=echo a=b", Change(("spec", "roles", "0", "command"), "echo a=b")),
        ('spec.env.LR="0.1"', Change(("spec", "env", "LR"), "0.1")),
        ("spec.preemptible=true", Change(("spec", "preemptible"), True)),
        ("spec.excludeNodes=[n-1, n-2]", Change(("spec", "excludeNodes"), ["n-1", "n-2"])),
        ("spec.retry=null", Change(("spec", "retry"), None)),
        (r"spec.code.inline.a\.py=pass", Change(("spec", "code", "inline", "a.py"), "pass")),
    ],
)
def test_a_change_is_a_path_and_a_yaml_value(text: str, change: Change) -> None:
    assert parse_change(text) == change


@pytest.mark.parametrize(
    "text", ["spec.priority", "spec.priority=", "=3", "spec..priority=3", "spec.a={b: ", "spec.a=&x *y"]
)
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_change(text)


def test_values_are_replaced_added_and_taken_away() -> None:
    spec = made(
        "spec.roles.0.replicas=4",
        'spec.env.SEED="7"',
        "spec.env.LR=null",
        "spec.retry.maxRetries=2",
        "spec.roles.1={name: ps}",
    )
    assert spec["roles"] == [{"replicas": 4}, {"name": "ps"}]
    assert spec["env"] == {"SEED": "7"}
    assert spec["retry"] == {"maxRetries": 2}


def test_an_item_is_taken_out_of_its_list() -> None:
    assert made("spec.roles.0=null")["roles"] == []


def test_the_document_itself_stays_as_it_is() -> None:
    made("spec.roles.0.replicas=9")
    assert DOCUMENT["spec"]["roles"] == [{"replicas": 1}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec.roles.3.replicas=4", "spec.roles is a list of 1; its items are 0 to 0"),
        ("spec.roles.worker.replicas=4", "spec.roles is a list of 1"),
        ("spec.roles.-1=null", "spec.roles is a list of 1"),
        ("spec.env.LR.x=4", "spec.env.LR is text, which has no parts"),
        ("spec.roles.0.replicas.x.y=4", "spec.roles.0.replicas is a number, which has no parts"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        made(text)
