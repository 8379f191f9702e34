"""A job's life as a user sees it, through the real command line and HTTP, with real replicas."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = pytest.mark.e2e

SCRATCH = {"type": "storage", "source": "scratch", "mountPath": "/mnt/data"}


def test_an_echo_job_succeeds_and_its_line_is_kept(platform: Platform) -> None:
    job = platform.submit(job_document("echo", "echo hello"))
    status = platform.await_end(job)["status"]
    assert status["state"] == "Succeeded"
    assert platform.log(job) == b"hello\n"
    assert platform.cli("logs", "echo").stdout.strip().endswith("hello")


def test_a_failing_job_fails_with_its_exit_code_as_the_reason(platform: Platform) -> None:
    job = platform.submit(job_document("fails", "echo dying >&2; exit 3"))
    status = platform.await_end(job)["status"]
    assert status["state"] == "Failed"
    replica = status["attempts"][0]["replicas"][0]
    assert replica["exit"]["code"] == 3
    assert status["attempts"][0]["decision"]["retry"] is False
    assert "3" in status["attempts"][0]["decision"]["reason"]
    assert "exit code 3" in platform.cli("describe", "fails").stdout


def test_the_events_of_a_job_tell_its_life_in_order(platform: Platform) -> None:
    job = platform.submit(job_document("events", "true"))
    platform.await_end(job)
    events = json.loads(platform.cli("events", "events", "-o", "json").stdout)
    kinds = [event["type"].removeprefix("trainmaster.") for event in events["items"]]
    states = [kind for kind in kinds if kind != "replicas.changed.v1"]
    assert states == [
        "job.submitted.v1",
        "job.placed.v1",
        "job.started.v1",
        "attempt.ended.v1",
        "job.succeeded.v1",
    ]
    assert len({event["traceparent"].split("-")[1] for event in events["items"]}) == 1


def test_a_gang_over_two_nodes_sees_the_same_hosts_and_its_own_rank(platform: Platform) -> None:
    command = 'echo "$RANK/$WORLD_SIZE $VC_WORKER_HOSTS $(hostname) $(cat /etc/trainmaster/hosts/worker | wc -l)"'
    job = platform.submit(job_document("gang", command, replicas=2))
    platform.await_end(job)
    lines = [platform.log(job, index=index).decode().split() for index in range(2)]
    assert [line[0] for line in lines] == ["0/2", "1/2"]
    assert lines[0][1] == lines[1][1] == f"{job}-1-worker-0.{job}-1,{job}-1-worker-1.{job}-1"
    assert [line[2] for line in lines] == [f"{job}-1-worker-0", f"{job}-1-worker-1"]


def test_the_first_failing_replica_ends_the_gang(platform: Platform) -> None:
    command = 'if [ "$RANK" = 1 ]; then exit 7; else exec sleep 600; fi'
    job = platform.submit(job_document("one-fails", command, replicas=2, terminationGrace="1s"))
    attempt = platform.await_end(job)["status"]["attempts"][0]
    assert attempt["replicas"][1]["exit"]["code"] == 7
    assert attempt["replicas"][0]["state"] == "Stopped"


def test_a_deepspeed_job_finds_its_hosts_and_has_succeeded_when_its_master_has(platform: Platform) -> None:
    job = job_document("deepspeed", "", framework="deepspeed", terminationGrace="1s")
    commands = {"worker": "sleep 600", "master": "cat /job/hostfile; cmp /job/hostfile $TM_HOSTFILE"}
    small = {"replicas": 1, "instanceType": "cpu-tiny"}
    job["spec"]["roles"] = [{"name": name, "command": command, **small} for name, command in commands.items()]
    submitted = platform.submit(job)
    status = platform.await_end(submitted)["status"]
    assert status["state"] == "Succeeded"
    assert {replica["role"]: replica["state"] for replica in status["attempts"][0]["replicas"]} == {
        "worker": "Stopped",
        "master": "Succeeded",
    }
    hosts = [f"{submitted}-1-{role}-0.{submitted}-1 slots=1" for role in ("master", "worker")]
    assert platform.log(submitted, role="master").decode().splitlines() == hosts


def test_a_job_can_be_stopped_while_it_runs_and_while_it_waits(platform: Platform) -> None:
    running = platform.submit(job_document("stop-me", "sleep 600", terminationGrace="1s"))
    waiting = platform.submit(job_document("nowhere", "true", excludeNodes=list(_nodes(platform))))
    platform.await_state(running, "Running")
    for name in ("stop-me", "nowhere"):
        platform.cli("stop", name)
    assert platform.await_end(running)["status"]["state"] == "Stopped"
    assert platform.await_end(waiting)["status"]["state"] == "Stopped"


def test_explain_says_in_numbers_what_a_waiting_job_lacks(platform: Platform) -> None:
    holds = platform.submit(job_document("holds", "sleep 600", terminationGrace="1s"))
    platform.await_state(holds, "Running")
    all_there_is = int(sum(_nodes(platform).values()) / 0.25)
    waits = platform.submit(job_document("waits", "true", replicas=all_there_is))
    said = platform.cli("explain", "waits").stdout
    assert f"needs {all_there_is} x 0.25 cores" in said
    assert f"{all_there_is - 1} instead of {all_there_is} replicas" in said
    platform.cli("stop", "holds")
    assert platform.await_end(waits)["status"]["state"] == "Succeeded"


def test_a_size_that_can_never_fit_is_refused_with_the_largest_that_would(platform: Platform) -> None:
    most = int(sum(_nodes(platform).values()) / 0.25)

    too_big = job_document("too-big", "true", replicas=most + 1)
    with platform.http as http:
        await_("the size of the nodes is known", lambda: http.post("/v1/plans", json=too_big).status_code == 422)
        refused = http.post("/v1/jobs", json=too_big)
    assert refused.status_code == 422
    assert f"give at most {most}" in refused.text


def test_a_gang_that_is_larger_than_the_one_leaf_it_asks_for_is_refused_and_would_start_on_two(
    platform: Platform,
) -> None:
    replicas = int(max(_nodes(platform).values()) / 0.25) + 1
    hard = {"mode": "hard", "level": "leaf"}
    with platform.http as http:

        def planned(topology: dict[str, str]) -> httpx.Response:
            job = job_document("hard", "true", replicas=replicas, topology=topology)
            return http.post("/v1/plans", json=job)

        await_("the leaves are known", lambda: planned(hard).status_code == 422)
        (wrong,) = planned(hard).json()["errors"]
        assert (wrong["pointer"], wrong["code"]) == ("/spec/topology", "never-fits")
        assert "topology.mode soft" in wrong["message"]
        assert planned({"mode": "soft", "level": "leaf"}).is_success


def _nodes(platform: Platform) -> dict[str, float]:
    """Cores by node."""
    items = json.loads(platform.cli("get", "nodes", "-o", "json").stdout)["items"]
    return {node["metadata"]["name"]: float(node["spec"]["cpu"]) for node in items}


def test_a_mounted_storage_is_read_and_written(platform: Platform) -> None:
    (platform.scratch / "in.txt").write_text("from the host")
    job = platform.submit(job_document("mounts", "cat /mnt/data/in.txt > /mnt/data/out.txt", mounts=[SCRATCH]))
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    assert (platform.scratch / "out.txt").read_text() == "from the host"


def test_inline_code_lies_at_code_and_is_the_working_directory(platform: Platform) -> None:
    code = {"inline": {"pkg/say.py": "print('said')"}}
    job = platform.submit(job_document("inline", "pwd; python3 pkg/say.py", code=code))
    platform.await_end(job)
    assert platform.log(job) == b"/code\nsaid\n"


def test_a_name_is_unique_per_user_until_the_job_is_deleted(platform: Platform) -> None:
    document = job_document("unique", "true")
    job = platform.submit(document)
    with platform.http as http:
        assert http.post("/v1/jobs", json=document).status_code == 409
        platform.await_end(job)
        assert http.post("/v1/jobs", json=document).status_code == 409
        assert http.delete(f"/v1/jobs/{job}").status_code == 204
        assert http.post("/v1/jobs", json=document).status_code == 201


def test_max_run_time_ends_an_attempt(platform: Platform) -> None:
    job = platform.submit(job_document("too-long", "sleep 600", maxRunTime="1s", terminationGrace="1s"))
    attempt = platform.await_end(job)["status"]["attempts"][0]
    assert attempt["endReason"] == "max-run-time"


def test_carriage_returns_colours_and_garbage_come_out_byte_for_byte_raw(platform: Platform) -> None:
    command = r"printf '10%%\r\033[31m20%%\033[0m\r\377\376\000end'"
    job = platform.submit(job_document("garbage", command))
    platform.await_end(job)
    assert platform.log(job) == b"10%\r\x1b[31m20%\x1b[0m\r\xff\xfe\x00end"
    cleaned = platform.cli("logs", "garbage").stdout
    assert "\x1b" not in cleaned
    assert cleaned.endswith("end\n")


def test_following_a_job_gives_its_lines_and_its_end_as_the_exit_code(platform: Platform) -> None:
    document = json.dumps(job_document("followed", "for i in 1 2 3; do echo line $i; done; exit 1"))
    done = platform.cli("apply", "-f", "-", "--follow", stdin=document, check=False)
    assert done.returncode == 1
    assert "line 3" in done.stdout


def test_labels_and_states_filter_the_list(platform: Platform) -> None:
    document = job_document("labelled", "true")
    document["metadata"]["labels"] = ["标签@1"]
    job = platform.submit(document)
    platform.await_end(job)
    listed = json.loads(platform.cli("get", "jobs", "--label", "标签@1", "-o", "json").stdout)
    assert [item["metadata"]["id"] for item in listed["items"]] == [job]


@pytest.mark.parametrize("name", ["训练-任务", "a@b", "a#b", "a+b", "a(b)[c]{d}", "ünïcode", "emoji-🚂"])
def test_odd_but_legal_names_work(platform: Platform, name: str) -> None:
    job = platform.submit(job_document(name, "true"))
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    assert json.loads(platform.cli("describe", name, "-o", "json").stdout)["metadata"]["name"] == name


def test_the_whole_api_is_documented_in_one_place(platform: Platform) -> None:
    with platform.http as http:
        answer = http.get("/openapi.json")
    assert answer.status_code == 200, answer.text
    prefixes = {"/".join(path.split("/")[:3]) for path in answer.json()["paths"]}
    assert prefixes >= {"/v1/jobs", "/v1/assets", "/v1/auth", "/v1/pools", "/v1/queue", "/v1/logs", "/v1/scalars"}


def test_down_says_whose_replicas_go_on_and_up_takes_them_up(own_platform: Platform) -> None:
    until_told = "until [ -e /mnt/data/go ]; do sleep 0.1; done; echo there"
    job = own_platform.submit(job_document("goes-on", until_told, mounts=[SCRATCH]))
    own_platform.await_state(job, "Running")
    said = own_platform.cli("down", "--home", str(own_platform.home)).stdout
    assert "the replicas of 1 running jobs go on" in said
    (own_platform.scratch / "go").touch()
    own_platform.up()
    assert own_platform.await_end(job)["status"]["state"] == "Succeeded"
    assert own_platform.log(job) == b"there\n"
    assert "go on" not in own_platform.cli("down", "--home", str(own_platform.home)).stdout
    own_platform.up()
