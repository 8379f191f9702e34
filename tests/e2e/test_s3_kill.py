"""The platform killed with -9 while data of a job comes from S3, and while what it wrote goes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform import Platform, await_, job_document
from tests.support.s3 import KEY_ID, S3, SECRET_KEY, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(240)]

FILES = 150
SIZE_BYTES = 200_000


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with s3_server(tmp_path) as running:
        yield running


@pytest.fixture
def platform(tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    (tmp_path / "key").write_text(SECRET_KEY)
    monkeypatch.setenv("TRAINMASTER_S3_ENDPOINT", s3.endpoint)
    monkeypatch.setenv("TRAINMASTER_S3_KEY_ID", KEY_ID)
    monkeypatch.setenv("TRAINMASTER_S3_SECRET_KEY_FILE", str(tmp_path / "key"))
    made = Platform(tmp_path / "home")
    made.up()
    spec = {"uri": f"s3://{s3.bucket}/team", "access": {"public": True}}
    made.apply({"apiVersion": "trainmaster/v1", "kind": "Storage", "metadata": {"name": "team"}, "spec": spec})
    yield made
    made.cli("down", "--home", str(made.home), "--replicas", check=False)


def explained(platform: Platform, job: str) -> str:
    with platform.http as http:
        answer = http.get(f"/v1/queue/{job}")
    return str(answer.json().get("summary", ""))


def test_nothing_is_lost_and_nothing_runs_twice(platform: Platform, s3: S3) -> None:
    contents = {f"team/in/{number}": os.urandom(SIZE_BYTES) for number in range(FILES)}
    for key, body in contents.items():
        s3.put_key(key, body)
    mount = {"type": "storage", "source": "team", "mountPath": "/mnt/data"}
    command = "sleep 8; cd /mnt/data; cp -r in out; echo start >> starts"
    job = platform.submit(job_document("mirrored", command, mounts=[mount]))
    await_("data comes", lambda: " of 28.6Mi of data" in explained(platform, job))
    platform.kill()
    platform.up()
    await_("what was written goes back", lambda: "saving" in explained(platform, job))
    platform.kill()
    platform.up()
    status = platform.await_end(job, timeout_s=120)["status"]
    assert status["state"] == "Succeeded"
    assert len(status["attempts"]) == 1
    found = {key: s3.client.get_object(Bucket=s3.bucket, Key=key)["Body"].read() for key in _keys(s3)}
    copies = {key.replace("/in/", "/out/"): body for key, body in contents.items()}
    assert found == {**contents, **copies, "team/starts": b"start\n"}
    await_("no directory is left", lambda: not list((platform.home / "scheduler" / "data").iterdir()), 60)


def _keys(s3: S3) -> list[str]:
    pages = s3.client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket)
    return [each["Key"] for page in pages for each in page.get("Contents", [])]
