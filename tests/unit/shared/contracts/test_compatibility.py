"""What counts as breaking, by example, and that the committed schemas are the code's and were not broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.contracts.__main__ import broken, generated, main, stale
from shared.contracts.compatibility import breaking_changes
from shared.contracts.documents import async_api

SCHEMAS = Path(__file__).parents[4] / "docs" / "schemas"


def schema(properties: dict[str, Any], required: tuple[str, ...] = (), **definitions: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "$defs": definitions}


BASE = schema(
    {
        "name": {"type": "string"},
        "state": {"$ref": "#/$defs/State"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    ("name",),
    State={"type": "string", "enum": ["a", "b"]},
    Item={"type": "object", "properties": {"size": {"type": "integer"}}},
)


def changed(**properties: Any) -> dict[str, Any]:
    return {**BASE, "properties": {**BASE["properties"], **properties}}


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (changed(name={"type": "integer"}), "/name: type string became integer"),
        (changed(state={"type": "string", "enum": ["a"]}), "/state: value 'b' was removed"),
        (changed(note={"type": "string"}), "/note: type null|string became string"),
        (changed(items={"type": "array", "items": {"type": "object"}}), "/items/items/size: was removed"),
        ({**BASE, "required": ["name", "note"]}, "/note: is now required"),
        (schema({"name": {"type": "string"}}, ("name",)), "/items: was removed"),
    ],
)
def test_a_change_that_breaks_readers_is_named(new: dict[str, Any], said: str) -> None:
    assert said in breaking_changes(BASE, new)


@pytest.mark.parametrize("new", [BASE, changed(more={"type": "string"}), {**BASE, "required": []}])
def test_an_optional_addition_breaks_nobody(new: dict[str, Any]) -> None:
    assert breaking_changes(BASE, new) == []


def test_the_committed_schemas_are_what_the_code_says() -> None:
    assert broken(SCHEMAS) == []
    assert stale(SCHEMAS) == []


def test_writing_over_a_broken_contract_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    file = tmp_path / "events" / "trainmaster.job.placed.v1.json"
    file.write_text(file.read_text().replace('"cluster"', '"region"'))
    (tmp_path / "events" / "trainmaster.job.gone.v1.json").write_text("{}")
    assert main([str(tmp_path)]) == 1
    complaint = capsys.readouterr().err
    assert "region" in complaint
    assert "gone" in complaint


def test_every_reference_of_the_async_api_document_leads_somewhere() -> None:
    files = {f"./{path}" for path in generated()}
    for message in async_api("1")["components"]["messages"].values():  # type: ignore[index,call-overload,union-attr]
        assert message["payload"]["schema"]["$ref"] in files  # type: ignore[index,call-overload]
