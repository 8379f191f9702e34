from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import FakePlatform, of_json, problem
from tests.support.job_documents import JOB_ID, job_document
from trainmaster.errors import ExitCode

JOB = """\
apiVersion: trainmaster/v1
kind: TrainingJob
metadata:
  name: mnist-ddp
spec:
  roles:
    - name: worker
      replicas: two
      extra: 1
"""
POOL = "apiVersion: trainmaster/v1\nkind: Pool\nmetadata: {name: team-a}\nspec: {type: dedicated}\n"
DIGEST = "sha256:" + "2" * 64

Command = Callable[..., Any]
Write = Callable[[str, str], Path]


def test_a_job_is_submitted_and_named_with_its_id(command: Command, api: FakePlatform, write: Write) -> None:
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    outcome = command("apply", "-f", str(write("job.yaml", JOB)))
    assert (outcome.code, outcome.out) == (0, f"job mnist-ddp submitted as {JOB_ID}\n")
    assert api.requests[0].json["spec"]["roles"][0]["replicas"] == "two"


def test_nodes_to_keep_off_that_are_not_there_are_warned_of_at_their_place(
    command: Command, api: FakePlatform, write: Write
) -> None:
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    nodes = {"items": [{"metadata": {"name": "vm-0", "id": "n-vm-0"}}], "next": None}
    api.on("GET", "/v1/nodes", of_json(nodes), problem(403, "forbidden", "not yours"))
    path = write("job.yaml", JOB + "  excludeNodes: [vm-0, moon, n-vm-0]\n")
    outcome = command("apply", "-f", str(path))
    assert (outcome.code, outcome.out) == (0, f"job mnist-ddp submitted as {JOB_ID}\n")
    assert outcome.err == f"{path}:10:24: warning: no node of the pools that you may use is called moon\n"
    again = command("apply", "-f", str(path))
    assert (again.code, again.err) == (0, "")


def test_documents_are_applied_in_their_order(command: Command, api: FakePlatform, write: Write) -> None:
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    api.on("PUT", "/v1/pools/team-a", of_json({}, 201), of_json({}))
    path = str(write("all.yaml", f"{POOL}---\n{JOB}---\n{POOL}"))
    assert command("apply", "-f", path).out.splitlines() == [
        "pool team-a created",
        f"job mnist-ddp submitted as {JOB_ID}",
        "pool team-a configured",
    ]


def test_standard_input_and_several_files_work_together(command: Command, api: FakePlatform, write: Write) -> None:
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    api.on("PUT", "/v1/pools/team-a", of_json({}, 201))
    assert command("apply", "-f", str(write("pool.yaml", POOL)), "-f", "-", stdin=JOB).code == 0
    assert [seen.method for seen in api.requests] == ["PUT", "POST"]


def test_json_is_the_document_of_the_platform(command: Command, api: FakePlatform, write: Write) -> None:
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    path = str(write("job.yaml", JOB))
    assert command("apply", "-f", path, "-o", "json").json == job_document("Queued")
    twice = command("apply", "-f", path, "-f", path, "-o", "json").json
    assert twice == {"items": [job_document("Queued")] * 2}


def test_a_folder_is_relative_to_the_file_that_names_it(command: Command, api: FakePlatform, write: Write) -> None:
    write("jobs/src/train.py", "print(1)")
    api.on("POST", "/v1/assets/uploads", of_json({"digest": DIGEST, "size": 9}, 201))
    api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    path = write("jobs/job.yaml", JOB + "  code: {upload: ./src}\n")
    assert command("apply", "-f", str(path)).code == 0
    assert api.requests[1].json["spec"]["code"] == {"upload": DIGEST}


def test_a_folder_that_is_not_there_is_named(command: Command, api: FakePlatform, write: Write) -> None:
    outcome = command("apply", "-f", str(write("job.yaml", JOB + "  code: {upload: ./src}\n")))
    assert outcome.code == ExitCode.INVALID
    assert "src does not exist" in outcome.err
    assert api.requests == []


class TestViolations:
    def test_each_is_shown_at_its_place_with_the_line_and_a_caret(
        self, command: Command, api: FakePlatform, write: Write
    ) -> None:
        api.on(
            "POST",
            "/v1/jobs",
            problem(
                422,
                "invalid-input",
                "3 things are wrong",
                ("/spec/roles/0/replicas", "wrong-type", "give an integer"),
                ("/spec/roles/0/extra", "unknown-key", "no such key"),
                ("/spec/image", "required", "image is missing"),
            ),
        )
        path = str(write("job.yaml", JOB))
        outcome = command("apply", "-f", path)
        assert outcome.code == ExitCode.INVALID
        assert outcome.err.splitlines() == [
            f"{path}:5:1: error: image is missing  [/spec/image, required]",
            "    5 | spec:",
            "      | ^^^^",
            f"{path}:8:17: error: give an integer  [/spec/roles/0/replicas, wrong-type]",
            "    8 |       replicas: two",
            "      |                 ^^^",
            f"{path}:9:7: error: no such key  [/spec/roles/0/extra, unknown-key]",
            "    9 |       extra: 1",
            "      |       ^^^^^",
        ]

    def test_lines_count_in_the_file_and_not_in_the_document(
        self, command: Command, api: FakePlatform, write: Write
    ) -> None:
        api.on("PUT", "/v1/pools/team-a", of_json({}, 201))
        api.on("POST", "/v1/jobs", problem(422, "invalid-input", "x", ("/metadata/name", "name-taken", "y")))
        path = str(write("all.yaml", f"{POOL}---\n{JOB}"))
        outcome = command("apply", "-f", path)
        assert f"{path}:9:9: error: y" in outcome.err
        assert "pool team-a created" in outcome.err

    def test_a_refusal_without_violations_is_shown_as_a_problem(
        self, command: Command, api: FakePlatform, write: Write
    ) -> None:
        api.on("POST", "/v1/jobs", problem(409, "conflict", "you have a job mnist-ddp already"))
        outcome = command("apply", "-f", str(write("job.yaml", JOB)))
        assert outcome.code == ExitCode.CONFLICT
        assert outcome.err.startswith("error: you have a job mnist-ddp already\n")

    def test_what_was_applied_and_what_was_not_is_told(self, command: Command, api: FakePlatform, write: Write) -> None:
        api.on("PUT", "/v1/pools/team-a", of_json({}, 201), problem(403, "forbidden", "admins only"))
        outcome = command("apply", "-f", str(write("all.yaml", f"{POOL}---\n{POOL}---\n{POOL}---\n{JOB}")))
        assert outcome.code == ExitCode.AUTH
        assert outcome.err.splitlines()[:2] == ["pool team-a created", "2 further documents were not applied"]


class TestNothingIsSent:
    @pytest.mark.parametrize(
        ("text", "place", "words"),
        [
            ("kind: Pool\n\tx: 1\n", ":2:1:", "tab"),
            ("kind: Pol\nmetadata: {name: x}\n", ":1:7:", "did you mean Pool"),
            ("kind: Sekret\nmetadata: {name: x}\n", ":1:7:", "not one that can be applied"),
            ("metadata: {name: x}\n", ":1:1:", "kind None"),
            ("kind: Pool\nmetadata: {nam: x}\n", ":2:1:", "metadata.name is missing"),
            ("kind: Pool\nmetadata: {name: a/b}\n", ":2:18:", "'a/b' has the character /, which no name may have"),
            ("kind: Pool\nkind: Pool\n", ":2:1:", "twice"),
        ],
    )
    def test_while_a_document_is_wrong_by_itself(
        self, command: Command, api: FakePlatform, write: Write, text: str, place: str, words: str
    ) -> None:
        path = str(write("all.yaml", f"{text}---\n{POOL}"))
        outcome = command("apply", "-f", str(write("good.yaml", POOL)), "-f", path)
        assert outcome.code == ExitCode.INVALID
        assert path + place in outcome.err
        assert words in outcome.err
        assert api.requests == []

    def test_where_there_is_not_one_job_to_follow(self, command: Command, api: FakePlatform, write: Write) -> None:
        outcome = command("apply", "--follow", "-f", str(write("all.yaml", f"{JOB}---\n{JOB}")))
        assert outcome.code == ExitCode.INVALID
        assert "there are 2 (mnist-ddp, mnist-ddp)" in outcome.err
        assert api.requests == []

    def test_where_the_file_is_not_there(self, command: Command, api: FakePlatform) -> None:
        assert command("apply", "-f", "absent.yaml").code == ExitCode.INVALID
        assert api.requests == []
