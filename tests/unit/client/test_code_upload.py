from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainmaster.code_upload import upload_folder, with_uploads

DIGEST = "sha256:" + "a" * 64


def job(code: Any) -> dict[str, Any]:
    return {"kind": "TrainingJob", "spec": {"code": code}}


def test_the_folder_of_a_job_is_replaced_by_its_digest_and_the_given_document_stays() -> None:
    document = job({"upload": "./src"})
    asked: list[Path] = []
    sent = with_uploads(document, lambda folder: asked.append(folder) or DIGEST)
    assert asked == [Path("src")]
    assert sent == job({"upload": DIGEST})
    assert document == job({"upload": "./src"})


def test_the_folder_of_a_code_set_stands_in_its_spec() -> None:
    document = {"kind": "CodeSet", "spec": {"upload": "src", "description": "x"}}
    assert with_uploads(document, lambda _: DIGEST)["spec"] == {"upload": DIGEST, "description": "x"}


@pytest.mark.parametrize(
    "document",
    [
        job({"upload": DIGEST}),
        job({"inline": {"a.py": "x"}}),
        job({"upload": 3}),
        job({"upload": ""}),
        job("src"),
        job(None),
        {"kind": "TrainingJob", "spec": []},
        {"kind": "TrainingJob"},
        {"kind": "Pool", "upload": "src", "spec": {"upload": "src"}},
        {},
    ],
)
def test_everything_else_goes_as_it_is(document: dict[str, Any]) -> None:
    assert upload_folder(document) is None
    assert with_uploads(document, lambda _: pytest.fail("nothing is to be uploaded")) == document
