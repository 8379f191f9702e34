"""Looking into attempts on the whole platform: exec, rerun, a sandbox that is kept, a job that deletes itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

WAITS = "echo $COLOUR > /tmp/colour; while test ! -e /tmp/go; do sleep 0.05; done"


def test_a_command_runs_in_a_running_replica_and_its_code_is_the_commands(platform: Platform) -> None:
    job = platform.submit(job_document("looked-into", WAITS, replicas=2, env={"COLOUR": "green"}))
    platform.await_state(job, "Running")
    script = "until test -s /tmp/colour; do sleep 0.05; done; cat /tmp/colour; echo $TM_INDEX >&2; exit 7"
    done = platform.cli("exec", "looked-into", "--index", "1", "--", "bash", "-c", script, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "green\n", "1\n")
    for index in "01":
        platform.cli("exec", job, "--index", index, "--", "touch", "/tmp/go")
    platform.await_state(job, "Succeeded")
    refused = platform.cli("exec", job, "--", "true", check=False)
    assert refused.returncode == 6
    # The record may say that the job has ended before the agent has, or the other way round.
    assert any(words in refused.stderr for words in ("has ended", "does not run now", "no replica"))


def test_a_job_is_run_once_more_with_changes(platform: Platform) -> None:
    job = platform.submit(job_document("again", "echo $WORD", env={"WORD": "one"}))
    platform.await_state(job, "Succeeded")
    told = platform.cli("rerun", "again", "--set", "spec.env.WORD=two", "--set", "spec.roles.0.replicas=2").stdout
    match = re.fullmatch(r"job (again-[a-z2-7]{5}) submitted as (tj-\w+)\n", told)
    assert match is not None, told
    platform.await_state(match[1], "Succeeded")
    assert platform.log(match[2], index=1) == b"two\n"


def test_a_failed_sandbox_is_kept_over_a_kill_and_the_job_is_deleted_in_time(own_platform: Platform) -> None:
    platform = own_platform
    job = platform.submit(job_document("kept", "echo clue > /tmp/clue; exit 3", keepFor="25s", ttlAfterFinished="30s"))
    platform.await_state(job, "Failed")
    platform.kill()
    platform.up()
    page = " ".join(platform.cli("describe", "kept", "--attempt", "1").stdout.split())
    where = re.search(r"sandbox of attempt 1 is held until \S+ \S+(?: UTC)? at (\S+) on", page)
    assert where is not None, page
    assert (Path(where[1]) / "replicas/worker-0/tmp/clue").read_text() == "clue\n"
    await_("the sandbox is removed", lambda: not Path(where[1]).exists(), 40)

    def is_gone() -> bool:
        with platform.http as http:
            return http.get(f"/v1/jobs/{job}").status_code == 404

    await_("the job is deleted", is_gone, 40)
    listed = json.loads(platform.cli("get", "jobs", "-o", "json").stdout)
    assert job not in json.dumps(listed)
