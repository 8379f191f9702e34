"""What users see of a running job beside its log: how far it is, and what its shut-in replica uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = pytest.mark.e2e

COMMAND = """
for step in $(seq 1 600); do echo "step $step/600 loss: 0.5"; for i in $(seq 2000); do :; done; sleep 0.2; done
"""


def test_progress_and_resources_of_a_running_job_are_told(platform: Platform) -> None:
    job = platform.submit(job_document("watched", COMMAND, terminationGrace="1s"))
    platform.await_state(job, "Running")

    def sampled() -> list[dict[str, Any]] | None:
        with platform.http as http:
            found: list[dict[str, Any]] = http.get(f"/v1/resources/{job}").json()["replicas"]
        return found or None

    (replica,) = await_("a replica was sampled", sampled)
    assert replica["latest"]["processes"] >= 1
    assert replica["latest"]["memoryBytes"] > 1_000_000
    progress = platform.job(job)["status"]["attempts"][0]["progress"]
    assert (progress["totalSteps"], progress["loss"]) == (600, 0.5)
    assert progress["estimatedEnd"] > progress["at"]
    assert "worker-0" in platform.cli("top", "watched").stdout
    assert "progress at" in platform.cli("describe", "watched").stdout
    listed = json.loads(platform.cli("get", "jobs", "-o", "json").stdout)["items"]
    assert [each["status"]["attempts"][0]["progress"] for each in listed if each["metadata"]["id"] == job] == [progress]
    platform.cli("stop", "watched")
    platform.await_end(job)
