"""Every document of the examples is one that this version takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from shared.catalog import Storage
from shared.documents.parsing import must_parse
from shared.jobspec import validate_job

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted(EXAMPLES.glob("*/job*.yaml"))
DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_document_of_an_example_is_valid(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        if document["kind"] == "Storage":
            must_parse(Storage, document)
        else:
            document["spec"]["code"]["upload"] = DIGEST  # the client puts it in place of the folder
            validate_job(document)


def test_there_are_examples() -> None:
    assert {file.parent.name for file in FILES} == {"digits-ddp", "mnist", "slow-rank", "torch-launch"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_file_names_itself_in_the_command_that_applies_it(file: Path) -> None:
    assert f"trainmaster apply -f examples/{file.parent.name}/{file.name} --follow" in file.read_text()
