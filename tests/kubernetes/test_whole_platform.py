"""The whole platform on a real cluster whose nodes run pods: the chart is installed, and jobs go through it.

`TRAINMASTER_TEST_PLATFORM_IMAGE` names the platform's image, `TRAINMASTER_TEST_IMAGE` the one of the jobs, and
`TRAINMASTER_TEST_VALUES` a file with values that this cluster needs beside.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.kubernetes.clusters import NO_NODE, image_of_tests, platform_image_of_tests
from tests.support.kubernetes.installation import Installation, installed
from tests.support.platform import ENDED, await_, job_document

SERVICES = ("submitter", "scheduler", "watchdog", "diagnoser", "logs")
LITTLE = {"resources": {"requests": {"cpu": "20m", "memory": "128Mi"}}}
JOB_S = 120
PAIR = """
import os, socket, time
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    other, _ = socket.create_server(("0.0.0.0", place[1])).accept()
    print("heard", other.recv(100).decode())
else:
    while True:
        try:
            socket.create_connection(place).sendall(b"rank 1")
            break
        except OSError:
            time.sleep(0.1)
"""

pytestmark = [
    pytest.mark.skipif(not (image_of_tests() and platform_image_of_tests()), reason=NO_NODE),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Platform:
    """An installation, and clients of what answers users."""

    installation: Installation
    jobs: httpx.Client
    logs: httpx.Client

    def submit(self, name: str, command: str, replicas: int = 2, **spec: Any) -> str:
        image = {"image": {"source": "address", "ref": image_of_tests()}}
        document = job_document(name, command, replicas=replicas, **(image | spec))
        answer = self.jobs.post("/v1/jobs", json=document)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["id"])

    def job(self, job: str) -> dict[str, Any]:
        answer = self.jobs.get(f"/v1/jobs/{job}")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def ended(self, job: str) -> dict[str, Any]:
        """The job's status once it is over."""

        def look() -> dict[str, Any] | None:
            status: dict[str, Any] = self.job(job)["status"]
            return status if status["state"] in ENDED else None

        found: dict[str, Any] = await_(f"{job} has ended", look, JOB_S)
        return found

    def log(self, job: str, index: int) -> bytes:
        """A replica's log, complete."""

        def look() -> httpx.Response | None:
            answer = self.logs.get(f"/v1/logs/{job}/1/worker/{index}", params={"raw": "true", "offset": 0})
            return answer if answer.headers.get("tm-ended") == "true" else None

        return bytes(await_(f"the log of {job} is complete", look, JOB_S).content)

    def says(self, job: str, text: bytes) -> None:
        def look() -> bool:
            logs = [self.logs.get(f"/v1/logs/{job}/1/worker/{each}", params={"raw": "true"}) for each in (0, 1)]
            return all(text in each.content for each in logs)

        await_(f"{job} says {text!r}", look, JOB_S)

    def leaves_nothing(self) -> None:
        await_("nothing of the jobs is left", lambda: self.installation.job_objects() == [], JOB_S)


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    repository, _, tag = platform_image_of_tests().rpartition(":")
    values: list[dict[str, Any]] = [
        {"image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}},
        dict.fromkeys((*SERVICES, "agent", "provision"), LITTLE),
        {"nats": {**LITTLE, "whenNotSpread": "ScheduleAnyway"}},
    ]
    own = os.environ.get("TRAINMASTER_TEST_VALUES", "")
    with installed(values, [Path(own)] if own else []) as installation:
        installation.ready()
        token = installation.token()
        with installation.service("submitter", token) as jobs, installation.service("logs", token) as logs:
            yield Platform(installation, jobs, logs)


def test_two_replicas_run_the_code_find_each_other_and_leave_their_logs(platform: Platform) -> None:
    job = platform.submit("pair", "python3 train.py", code={"inline": {"train.py": PAIR}})
    assert platform.ended(job)["state"] == "Succeeded"
    assert [platform.log(job, index) for index in (0, 1)] == [b"heard rank 1\n", b""]
    platform.leaves_nothing()


def test_nodes_are_tested_by_their_agents_before_a_job_starts(platform: Platform) -> None:
    job = platform.submit("tested", "true", diagnosis={"enabled": True})
    status = platform.ended(job)
    assert status["state"] == "Succeeded"
    assert status["attempts"][-1]["diagnosis"]["passed"] is True
    with platform.installation.service("diagnoser", platform.installation.token()) as diagnoser:
        report = diagnoser.get(f"/v1/diagnoses/{job}-1").json()
    (node,) = report["nodes"]
    assert (node["verdict"], node["tested"]) == ("green", True)
    assert node["about"]["transport"] in {"gloo", "tcp"}
    platform.leaves_nothing()


def test_exit_codes_are_told(platform: Platform) -> None:
    job = platform.submit("codes", "echo leaving; exit $((RANK * 3))")
    status = platform.ended(job)
    assert (status["state"], status["attempts"][-1]["endReason"]) == ("Failed", "failed")
    assert "exited with code 3" in status["message"]
    assert platform.log(job, 1) == b"leaving\n"
    platform.leaves_nothing()


def test_out_of_memory_is_told(platform: Platform) -> None:
    job = platform.submit("hungry", "exec python3 -c 'x = bytearray(900 << 20); x[::4096] = x[::4096]'", replicas=1)
    status = platform.ended(job)
    assert "it ran out of memory" in status["message"]
    platform.leaves_nothing()


def test_a_stop_lets_replicas_say_their_last_words(platform: Platform) -> None:
    job = platform.submit("endless", "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.2; done")
    platform.says(job, b"up\n")
    assert platform.jobs.post(f"/v1/jobs/{job}/stop", json={}).is_success
    assert platform.ended(job)["state"] == "Stopped"
    for index in (0, 1):
        assert b"bye\n" in platform.log(job, index)
    platform.leaves_nothing()


def test_a_running_job_takes_commands_and_tells_what_it_uses(platform: Platform) -> None:
    job = platform.submit("watched", "echo up; sleep 1000")
    platform.says(job, b"up\n")
    body = {"command": ["sh", "-c", "echo $TM_ROLE-$TM_INDEX; echo no >&2; exit 4"], "index": 1}
    with platform.installation.service("scheduler", platform.installation.token()) as scheduler:
        told = scheduler.post(f"/v1/sandboxes/{job}/exec", json=body).text
    data = [json.loads(line.removeprefix("data: ")) for line in told.splitlines() if line.startswith("data: ")]
    assert {base64.b64decode(each["data"]) for each in data[:-1]} == {b"worker-1\n", b"no\n"}, told
    assert data[-1] == {"code": 4, "message": ""}

    def used() -> list[int]:
        listed = platform.logs.get(f"/v1/resources/{job}").json().get("replicas", ())
        return [each["index"] for each in listed if each["latest"]["memoryBytes"]]

    await_("both replicas are sampled", lambda: sorted(used()) == [0, 1], JOB_S)
    assert platform.jobs.post(f"/v1/jobs/{job}/stop", json={}).is_success
    assert platform.ended(job)["state"] == "Stopped"
    platform.leaves_nothing()


def test_an_image_that_cannot_be_had_is_told_when_the_time_to_start_is_over(platform: Platform) -> None:
    nowhere = {"source": "address", "ref": "registry.invalid/none:1"}
    status = platform.ended(platform.submit("nowhere", "true", image=nowhere, startTimeout="15s"))
    assert (status["state"], status["attempts"][-1]["endReason"]) == ("Failed", "start-timeout")
    assert "the image registry.invalid/none:1 cannot be pulled" in status["message"]
    platform.leaves_nothing()


def test_a_job_outlives_all_schedulers(platform: Platform) -> None:
    job = platform.submit("steady", "echo up; sleep 20; exit 0")
    platform.says(job, b"up\n")
    chosen = "--selector=app.kubernetes.io/component=scheduler"
    platform.installation.run("kubectl", "delete", "pods", chosen, "--grace-period=0", "--force")
    status = platform.ended(job)
    assert (status["state"], status["attempt"]) == ("Succeeded", 1)
    platform.leaves_nothing()
