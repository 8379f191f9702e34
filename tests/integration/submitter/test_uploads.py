"""Uploads and code sets: what is kept, what is refused, and what a job runs."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from shared.bus.blobs import Blobs
from shared.bus.streams import CODE_BUCKET
from tests.support.specs import changed, small_job_document
from tests.support.submitter import Submission

GZIP = {"Content-Type": "application/gzip"}


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def test_an_archive_is_kept_once_by_its_digest_and_runs_in_a_job(submission: Submission, tmp_path: Path) -> None:
    client, content = submission.client(), archive({"train.py": b"print()"})
    answers = [await client.post("/v1/assets/uploads", content=content, headers=GZIP) for _ in range(2)]
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json() == {"digest": digest, "size": len(content)}
    await Blobs(submission.bus.js, CODE_BUCKET).fetch(digest, tmp_path / "code")
    assert (tmp_path / "code").read_bytes() == content
    taken = await client.post("/v1/jobs", json=changed(small_job_document(), "/spec/code", {"upload": digest}))
    job = await submission.bus.load_job(taken.json()["metadata"]["id"])
    assert job.submitted.resolved.code.digest == digest


async def test_a_code_set_of_inline_files_becomes_an_archive(submission: Submission, tmp_path: Path) -> None:
    client = submission.client()
    body = {
        "apiVersion": "trainmaster/v1",
        "kind": "CodeSet",
        "metadata": {"name": "hello"},
        "spec": {"inline": {"pkg/训练.py": "print('hi')", "main.py": "import pkg"}},
    }
    assert (await client.put("/v1/assets/code-sets/hello", json=body)).status_code == 201
    taken = await client.post("/v1/jobs", json=changed(small_job_document(), "/spec/code", {"source": "hello"}))
    job = await submission.bus.load_job(taken.json()["metadata"]["id"])
    code = job.submitted.resolved.code
    await Blobs(submission.bus.js, CODE_BUCKET).fetch(code.digest, tmp_path / "code")
    with tarfile.open(tmp_path / "code") as tar:
        assert sorted(tar.getnames()) == ["main.py", "pkg/训练.py"]
    revision = changed(small_job_document("x"), "/spec/code", {"source": "hello", "revision": "main"})
    assert (await client.post("/v1/jobs", json=revision)).json()["errors"][0]["code"] == "no-revisions"


async def test_unknown_uploads_and_code_sets_are_violations(submission: Submission) -> None:
    client = submission.client()
    for code, expected in [
        ({"upload": "sha256:" + "0" * 64}, ("/spec/code/upload", "unknown-upload")),
        ({"source": "nothing"}, ("/spec/code/source", "unknown-code-set")),
    ]:
        answer = await client.post("/v1/jobs", json=changed(small_job_document(), "/spec/code", code))
        assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [expected]


async def test_what_is_no_archive_is_refused(submission: Submission) -> None:
    client = submission.client()
    for content, code in [
        (b"", "archive-unreadable"),
        (b"hello", "archive-unreadable"),
        (gzip.compress(b"hello" * 1000), "archive-unreadable"),
        (archive({"a": b"x" * 10_000})[:-20], "archive-unreadable"),
        (archive({"../a": b"x"}), "archive-member"),
    ]:
        answer = await client.post("/v1/assets/uploads", content=content, headers=GZIP)
        assert answer.status_code == 422, content
        assert answer.json()["errors"][0]["code"] == code


async def test_an_upload_needs_the_right_type_a_token_and_an_acceptable_size(submission: Submission) -> None:
    content = archive({"a": b"x"})
    assert (await submission.client().post("/v1/assets/uploads", content=content)).status_code == 415
    assert (await submission.client(None).post("/v1/assets/uploads", content=content, headers=GZIP)).status_code == 401
    announced = {**GZIP, "Content-Length": str(300 << 20)}
    assert (await submission.client().post("/v1/assets/uploads", content=content, headers=announced)).status_code == 413
