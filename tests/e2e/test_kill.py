"""The platform killed with -9 while jobs run: every job ends once, in the right state, with every byte of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SCRATCH = {"type": "storage", "source": "scratch", "mountPath": "/mnt/data"}
# Each replica notes its start on the mount, and writes what it prints there too.
PRINTS = "echo start >> /mnt/data/$TM_JOB_NAME.$RANK.starts; {{ {work} ; }} 2>&1 | tee /mnt/data/$TM_JOB_NAME.$RANK.log"
CHATTY = 'for i in $(seq 1 {lines}); do echo "$TM_JOB_NAME $RANK line $i"; sleep {pause}; done'

FATES: dict[str, tuple[str, int, str]] = {
    "quick": ("echo done", 1, "Succeeded"),
    "chatty": (CHATTY.format(lines=600, pause=0.01), 1, "Succeeded"),
    "steady": (CHATTY.format(lines=60, pause=0.1), 1, "Succeeded"),
    "pair": (CHATTY.format(lines=60, pause=0.1), 2, "Succeeded"),
    "bulk": ("for i in 1 2 3 4 5; do head -c 2000000 /dev/urandom | base64; sleep 1; done", 1, "Succeeded"),
    "bars": (r"for i in $(seq 1 300); do printf '\r%d' $i; sleep 0.02; done", 1, "Succeeded"),
    "late": ("sleep 6; echo late", 1, "Succeeded"),
    "fails": ("sleep 4; echo bad; exit 5", 1, "Failed"),
    "killed": ("sleep 4; kill -9 $$", 1, "Failed"),
    "waits": ("echo waited", 1, "Succeeded"),
}


def submit_all(platform: Platform) -> dict[str, str]:
    jobs = {}
    for name, (work, replicas, _end) in FATES.items():
        command = "set -o pipefail; " + PRINTS.format(work=work)
        if name == "killed":
            command = "echo start >> /mnt/data/$TM_JOB_NAME.$RANK.starts; " + work
        document = job_document(name, command, replicas=replicas, mounts=[SCRATCH])
        jobs[name] = platform.submit(document)
    return jobs


def written(scratch: Path, name: str, rank: int) -> bytes:
    return (scratch / f"{name}.{rank}.log").read_bytes()


@pytest.mark.parametrize("victim", ["platform", "agent", "nats-server"])
def test_every_job_ends_once_and_no_byte_is_lost(own_platform: Platform, victim: str) -> None:
    platform = own_platform
    jobs = submit_all(platform)
    platform.await_state(jobs["chatty"], "Running")
    for _kill in range(2):
        platform.kill_part(victim)
        if victim == "platform":
            platform.up()
    ends = {name: platform.await_end(job, timeout_s=120) for name, job in jobs.items()}
    assert {name: end["status"]["state"] for name, end in ends.items()} == {
        name: state for name, (_work, _replicas, state) in FATES.items()
    }
    for name, (_work, replicas, _state) in FATES.items():
        assert len(ends[name]["status"]["attempts"]) == 1
        for rank in range(replicas):
            starts = (platform.scratch / f"{name}.{rank}.starts").read_text()
            assert starts == "start\n", f"{name} {rank} ran {starts.count('start')} times"
            if name != "killed":
                assert platform.log(jobs[name], index=rank) == written(platform.scratch, name, rank), name
    assert ends["killed"]["status"]["attempts"][0]["replicas"][0]["exit"]["signal"] == 9
    await_("no replica process is left", lambda: not platform.replica_processes())
    await_("no gang directory is left", lambda: not list((platform.home / "gangs").glob("tj-*")), 30)
