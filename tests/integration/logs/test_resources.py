"""What replicas use: stored beside their logs, read by who may see the job."""

from __future__ import annotations

import subprocess
import sys

from shared.auth.principal import Principal
from shared.bus import Bus
from shared.ids import UserId
from shared.logs_wire import Chunk, FileRef, ReplicaRef
from shared.resource_samples import GpuSample, Sample, encode_sample
from tests.support.logs import KeptLogs, agent_running, log_of, publish, start_replica, submit
from tests.support.services import eventually


def samples_of(job: str, index: int = 0, attempt: int = 1) -> FileRef:
    return FileRef(ReplicaRef(job, attempt, "worker", index), "use")


async def until(kept: KeptLogs, job: str, **query: object) -> list[dict]:
    async def look() -> list[dict] | None:
        answer = await kept.client().get(f"/v1/resources/{job}", params={k: str(v) for k, v in query.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()["replicas"] or None

    return await eventually(look, 40)


async def test_the_last_sample_the_peaks_and_the_whole_attempt_are_told(kept: KeptLogs):
    job = await submit(kept.bus)
    first = encode_sample(Sample(1_700_000_000_000, 2.0, 300, 4))
    second = encode_sample(Sample(1_700_000_005_000, 1.0, 200, 3, (GpuSample("GPU-1", 90, 1000),)))
    await publish(kept.bus, Chunk(log_of(job), 0, b"x"), Chunk(samples_of(job), 0, first + second[:10]))
    await until(kept, job)
    await publish(kept.bus, Chunk(samples_of(job), len(first) + 10, second[10:]))

    async def look() -> list[dict] | None:
        found = await until(kept, job, history=True)
        return found if len(found[0]["history"]["times"]) == 2 else None

    (found,) = await eventually(look)
    assert found["latest"] == {
        "at": "2023-11-14T22:13:25.000Z",
        "cpuCores": 1.0,
        "memoryBytes": 200,
        "processes": 3,
        "gpus": [{"id": "GPU-1", "busyPercent": 90.0, "memoryBytes": 1000}],
    }
    assert found["peak"] == {"cpuCores": 2.0, "memoryBytes": 300, "gpuMemoryBytes": 1000}
    assert found["history"]["cpuCores"] == [2.0, 1.0]
    assert (await kept.client().get(f"/v1/resources/{job}?attempt=2")).json() == {"replicas": []}
    stranger = kept.client(Principal(UserId("u-eve"), "eve"))
    for reference in (job, "demo"):
        assert (await stranger.get(f"/v1/resources/{reference}")).status_code == 404


async def test_samples_are_no_log_and_no_event_file_and_go_with_the_job(kept: KeptLogs):
    job = await submit(kept.bus)
    await publish(kept.bus, Chunk(samples_of(job), 0, encode_sample(Sample(1, 2.0, 300, 4))))
    await until(kept, job)
    assert (await kept.client().get(f"/v1/scalars/{job}")).json() == {"tags": []}
    assert await kept.sizes(job) == {(1, "worker", 0): (0, False)}
    await kept.service._store.delete(job)
    assert (await kept.client().get(f"/v1/resources/{job}")).json() == {"replicas": []}


async def test_a_real_agent_samples_a_real_process(kept: KeptLogs, bus: Bus, tmp_path, monkeypatch):
    """A busy process that says by its environment whose it is, as without a sandbox."""
    job = await submit(bus)
    home = tmp_path / "machine"
    variables = {"TM_JOB_ID": job, "TM_ATTEMPT": "1", "TM_ROLE": "worker", "TM_INDEX": "0", "PATH": "/usr/bin"}
    replica = start_replica(home, job)
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"], env=variables)
    monkeypatch.setenv("TRAINMASTER_SAMPLE_S", "0.3")
    try:
        async with agent_running(home, bus.options.url):
            (found,) = await until(kept, job)
            assert found["latest"]["processes"] == 1
            assert found["latest"]["cpuCores"] > 0.05
            replica.end()
            await replica.until_shipped()
    finally:
        process.kill()
        process.wait()
