"""Jobs on Kubernetes, from the stream of jobs to pods and back: the whole scheduler over the API test server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from shared import events as ev
from shared.catalog import CatalogStore, Pool
from shared.jobs import JobState
from tests.support.http import calling
from tests.support.kubernetes.clusters import Cluster, a_cluster
from tests.support.kubernetes.engines import belongings, kubelets, node_name, until_left
from tests.support.kubernetes.job_desk import all_is_shipped
from tests.support.kubernetes.scripts import PodScript
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

IMAGE = ev.ResolvedImage(source="address", address="registry.example/train:1")


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch) -> AsyncIterator[Cluster]:
    async with a_cluster("test server", tmp_path) as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
        yield made


def on(cluster: Cluster) -> dict:
    return {"engine": "kubernetes", "kube_namespace": cluster.namespace}


async def test_a_job_runs_as_pods_to_its_end_and_leaves_nothing_once_its_logs_are_kept(rig: Rig, cluster: Cluster):
    before = await belongings(cluster)
    async with (
        kubelets(cluster, "a", script=lambda _: PodScript(run_s=0.1)),
        running(await rig.scheduler(**on(cluster))),
    ):
        job = await rig.submit(replicas=2, resolved_image=IMAGE)
        done = await rig.until(job, JobState.SUCCEEDED)
        assert {replica.where for replica in done.attempt.replicas.values()} == {node_name(cluster, "a")}
        assert (await belongings(cluster))["pods"] == before["pods"] + 2, "their logs would go with them"
        async with all_is_shipped(rig.bus):
            await until_left(cluster, before)


async def test_a_job_whose_image_cannot_be_pulled_ends_in_time_and_says_so(rig: Rig, cluster: Cluster):
    before = await belongings(cluster)
    async with (
        kubelets(cluster, "a", script=lambda _: PodScript(pull_error="manifest unknown")),
        running(await rig.scheduler(**on(cluster))),
    ):
        job = await rig.submit(replicas=2, resolved_image=IMAGE, startTimeout="4s")
        ended = (await rig.until(job, JobState.DECIDING)).attempt.ended
        assert ended.reason is ev.EndReason.START_TIMEOUT
        assert "not every replica ran within 4s of placement (worker-0, worker-1: the image" in ended.message
        assert "registry.example/train:1 cannot be pulled (" in ended.message
        assert before["pods"] == (await belongings(cluster))["pods"]


async def test_a_scheduler_that_stands_by_says_what_replicas_wait_for_too(rig: Rig, cluster: Cluster, tmp_path: Path):
    other = {"home": tmp_path / "other", "instance": "other", **on(cluster)}
    async with (
        kubelets(cluster, "a", script=lambda _: PodScript(pull_error="manifest unknown")),
        running(await rig.scheduler(**on(cluster))),
    ):
        job = await rig.submit(resolved_image=IMAGE)
        await rig.until(job, JobState.STARTING)
        async with running(await rig.scheduler(**other)) as second, calling(second.app, rig.token()) as http:

            async def told() -> bool | None:
                answer = await http.get(f"/v1/queue/{job}")
                return (answer.is_success and "manifest unknown" in answer.json()["summary"]) or None

            await eventually(told)
            leads = (await http.get("/readyz")).json()["checks"]["jobs"]
            assert "stands by" in str(leads)


async def test_a_job_whose_place_others_took_is_placed_anew_without_using_a_retry(rig: Rig, cluster: Cluster):
    def script(pod: dict) -> PodScript:
        first = pod["metadata"]["labels"]["trainmaster.dev/attempt"] == "1"
        return PodScript(rejected="OutOfcpu") if first else PodScript(run_s=0)

    async with kubelets(cluster, "a", script=script), running(await rig.scheduler(**on(cluster))):
        job = await rig.submit(replicas=2, resolved_image=IMAGE)
        done = await rig.until(job, JobState.SUCCEEDED)
    assert [attempt.ended.reason for attempt in done.attempts] == [ev.EndReason.PREEMPTED, ev.EndReason.COMPLETED]
    assert "others hold what it needs there (OutOfcpu" in done.attempts[0].ended.message
    assert not any(attempt.decision for attempt in done.attempts)


async def test_a_scheduler_that_comes_back_looks_after_the_gang_that_runs(rig: Rig, cluster: Cluster):
    async with kubelets(cluster, "a"):
        async with running(await rig.scheduler(**on(cluster))):
            job = await rig.submit(replicas=2, resolved_image=IMAGE)
            await rig.until(job, JobState.RUNNING)
        pods = {pod["metadata"]["uid"] for pod in await pods_in(cluster)}
        async with running(await rig.scheduler(**on(cluster))):
            await rig.append(ev.StopRequested(by="u-ada", reason="enough"), job)
            done = await rig.until(job, JobState.STOPPED)
            assert {replica.exit.cause for replica in done.attempt.replicas.values()} == {"stopped"}
            assert len(pods) == 2

            async def none_left() -> bool | None:
                return not await pods_in(cluster) or None

            await eventually(none_left)


async def test_what_runs_is_left_as_it_is_while_its_cluster_goes_by_another_name(rig: Rig, cluster: Cluster):
    async with kubelets(cluster, "a"):
        async with running(await rig.scheduler(**on(cluster))):
            job = await rig.submit(resolved_image=IMAGE)
            await rig.until(job, JobState.RUNNING)
        with capture_logs() as logged:
            async with (
                running(await rig.scheduler(cluster="prod", **on(cluster))) as renamed,
                calling(renamed.app, rig.token()) as http,
            ):

                async def told() -> bool | None:
                    answer = await http.get(f"/v1/queue/{job}")
                    return (answer.is_success and "until an admin names main again" in answer.json()["summary"]) or None

                await eventually(told)
                assert (await rig.job(job)).state is JobState.RUNNING
        (warning,) = [line for line in logged if line["event"] == "cluster_not_in_settings"]
        assert (warning["cluster"], warning["jobs"], warning["settings_name"]) == ("main", 1, ["prod"])
        async with running(await rig.scheduler(**on(cluster))):
            await rig.append(ev.StopRequested(by="u-ada", reason="enough"), job)
            done = await rig.until(job, JobState.STOPPED)
            assert {replica.exit.cause for replica in done.attempt.replicas.values()} == {"stopped"}


async def test_who_chooses_nodes_instead_is_told_which_the_job_must_not_get(rig: Rig, cluster: Cluster):
    labels = {"pool": "theirs"}
    spec = {"type": "dedicated", "nodes": {"labels": labels}, "binding": "kubernetes"}
    pool = {"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": {"name": "theirs"}, "spec": spec}
    await CatalogStore(rig.bus).put(Pool.model_validate(pool), expected=0)
    async with kubelets(cluster, "a", "b", labels=labels), running(await rig.scheduler(**on(cluster))):
        unwanted = node_name(cluster, "b")
        of_pool = {"resolved": {"pool_name": "theirs"}, "resolved_image": IMAGE}
        await rig.submit(**of_pool, excludeNodes=[unwanted])

        async def made() -> list[dict] | None:
            return await pods_in(cluster) or None

        (pod,) = await eventually(made)
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = affinity["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "pool", "operator": "In", "values": ["theirs"]}]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": [unwanted]}]


async def pods_in(cluster: Cluster) -> list[dict]:
    return (await cluster.api.get(cluster.path("pods"))).body["items"]
