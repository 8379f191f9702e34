"""What the scheduler tells about its nodes, and code on its way from the object store to the replicas."""

from __future__ import annotations

from shared import events as ev
from shared.bus.blobs import Blobs
from shared.bus.streams import CODE_BUCKET, NODES
from shared.catalog import CatalogWatch, Cluster
from shared.events import decode
from shared.jobs import JobState
from tests.support.archives import archive
from tests.support.scheduling import Rig
from tests.support.services import eventually, running


async def test_nodes_are_reported_and_the_cluster_says_what_its_engine_can_do(rig: Rig):
    rig.nodes = 3
    catalog = CatalogWatch(rig.bus)

    async def cluster() -> Cluster | None:
        return (await catalog.refresh()).get(Cluster, "main")

    async with running(await rig.scheduler()):
        found = await eventually(cluster)
        reported = await eventually(lambda: _reports(rig, 3))
    assert found.spec.mounts or found.spec.mounts_hint
    assert len({report.node for report in reported}) == 3
    assert all(report.cpu_millis > 0 and report.memory_bytes > 0 for report in reported)


async def test_a_cluster_that_was_the_first_under_other_settings_is_that_no_more(rig: Rig):
    catalog = CatalogWatch(rig.bus)

    async def only_main() -> bool | None:
        clusters = (await catalog.refresh()).all(Cluster)
        return {each.name: each.spec.first for each in clusters} == {"mian": False, "main": True} or None

    async with running(await rig.scheduler(cluster="mian")):
        await eventually(lambda: _reports(rig, 1))
    async with running(await rig.scheduler()):
        await eventually(only_main)


async def _reports(rig: Rig, count: int) -> list[ev.NodeReported] | None:
    messages = await rig.bus.history.messages(NODES, "tm.node.>", after=0)
    return [decode(message.data).data for message in messages] if len(messages) >= count else None


async def test_uploaded_code_is_at_code(rig: Rig):
    digest = await Blobs(rig.bus.js, CODE_BUCKET).put(archive({"hello.sh": "echo from the archive"}))
    code = ev.ResolvedCode(kind="upload", digest=digest)
    async with running(await rig.scheduler()):
        job = await rig.submit("sh /code/hello.sh", code={"upload": digest}, resolved_code=code)
        await rig.until(job, JobState.SUCCEEDED)
    assert rig.log(job) == "from the archive\n"
    assert list((rig.home / "scheduler" / "archives").iterdir()) == []


async def test_uploaded_code_that_is_gone_fails_the_job_with_the_reason(rig: Rig):
    digest = "sha256:" + "0" * 64
    code = ev.ResolvedCode(kind="upload", digest=digest)
    async with running(await rig.scheduler()):
        job = await rig.submit("true", code={"upload": digest}, resolved_code=code)
        done = await rig.until(job, JobState.DECIDING)
    assert "the uploaded code is gone" in done.attempt.ended.message


async def test_inline_code_is_at_code(rig: Rig):
    files = {"a/hello.sh": "echo inline"}
    async with running(await rig.scheduler()):
        job = await rig.submit(
            "sh /code/a/hello.sh", code={"inline": files}, resolved_code=ev.ResolvedCode(kind="inline")
        )
        await rig.until(job, JobState.SUCCEEDED)
    assert rig.log(job) == "inline\n"
