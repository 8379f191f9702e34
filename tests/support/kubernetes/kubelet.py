"""Kubelets that act as if they ran pods, for as many nodes as a test wants, on any API server.

One watch over all bound pods feeds one task a pod. The task follows the pod's script (or, with a `Runner`, really runs
the command as a process of this machine) and writes the statuses that a real kubelet would. A pod that is deleted
gets its grace, then its last status, and then the second deletion, without grace, that lets it go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol, Self

import aiohttp

from shared.tasks import end
from tests.support.kubernetes.connection import Answer, Connection
from tests.support.kubernetes.nodes import NodeSpec, lacking, mark_lost, register
from tests.support.kubernetes.pod_status import Exit, PodStatus
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.scripts import KILLED, PodScript, annotated

BOUND_PODS: Final = {"fieldSelector": "spec.nodeName!="}
AGAIN_AFTER_S: Final = 0.1
BACK_OFF_AFTER_S: Final = 0.1
ENDED: Final = {"Succeeded", "Failed"}


class Process(Protocol):
    """The containers of one pod, running."""

    async def wait(self) -> Exit: ...

    async def stop(self, grace_s: float) -> Exit: ...

    async def abandon(self) -> None: ...


class InitFailedError(Exception):
    """An init container ended with an error, so the others do not start."""

    def __init__(self, container: str, how: Exit):
        super().__init__(f"init container {container} ended with code {how.code}")
        self.container, self.how = container, how


class Runner(Protocol):
    """Runs pods' containers for real."""

    async def start(self, pod: Json) -> Process: ...


@dataclass
class Pod:
    """A pod that one of the nodes has."""

    item: Json
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    admitted: bool = False

    @property
    def node(self) -> str:
        return str(self.item["spec"]["nodeName"])

    @property
    def path(self) -> str:
        metadata = self.item["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    @property
    def grace_s(self) -> float:
        metadata = self.item["metadata"]
        return float(metadata.get("deletionGracePeriodSeconds", self.item["spec"]["terminationGracePeriodSeconds"]))


class SimulatedKubelet:
    """The kubelets of some nodes. Use it as a context, which registers the nodes."""

    def __init__(
        self,
        api: Connection,
        nodes: Sequence[NodeSpec],
        script: Callable[[Json], PodScript] = annotated,
        *,
        runner: Runner | None = None,
    ):
        self._api, self._script, self._runner = api, script, runner
        self._nodes = {each.name: each for each in nodes}
        self._pods: dict[str, Pod] = {}
        self._watching: asyncio.Task[None] | None = None
        self._looks: dict[str, asyncio.Task[bool]] = {}

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(register(self._api, each) for each in self._nodes.values()))
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [self._watching, *(each.task for each in self._pods.values()), *self._looks.values()]
        await asyncio.gather(*(end(task) for task in tasks if task is not None))

    async def lose(self, name: str) -> None:
        """The node falls silent with all that runs on it, and the cluster notices."""
        self._nodes.pop(name)
        for pod in [each for each in self._pods.values() if each.node == name]:
            self._forget(pod.item["metadata"]["uid"])
        await mark_lost(self._api, name)

    async def recover(self, node: NodeSpec) -> None:
        """A node comes back empty: what was on it has ended with it."""
        self._nodes[node.name] = node
        await register(self._api, node)
        listed = (await self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node.name}")).body
        for item in listed["items"]:
            await self._write(Pod(item), PodStatus(item, node.address).ended(_now(), Exit(KILLED, "Error")))
            if item["metadata"].get("deletionTimestamp"):
                await self._let_go(Pod(item))

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                await self._list_and_watch()
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _list_and_watch(self) -> None:
        listed = await self._api.get("/api/v1/pods", **BOUND_PODS)
        if listed.status != 200:
            return
        found = {each["metadata"]["uid"]: each for each in listed.body["items"]}
        for uid in set(self._pods) - set(found):
            self._forget(uid)
        for item in found.values():
            self._seen(item)
        revision = listed.body["metadata"]["resourceVersion"]
        async with aclosing(self._api.watch("/api/v1/pods", resourceVersion=revision, **BOUND_PODS)) as events:
            async for event in events:
                if event["type"] in {"ERROR", "STATUS"}:
                    return
                if event["type"] == "DELETED":
                    self._forget(event["object"]["metadata"]["uid"])
                else:
                    self._seen(event["object"])

    def _seen(self, item: Json) -> None:
        uid = item["metadata"]["uid"]
        pod = self._pods.get(uid)
        if pod is None:
            if item["spec"]["nodeName"] not in self._nodes:
                return
            pod = self._pods[uid] = Pod(item, admitted=item["status"]["phase"] == "Running")
            pod.task = asyncio.create_task(self._live(pod))
        pod.item = item
        if item["metadata"].get("deletionTimestamp"):
            pod.deleted.set()

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None and pod.task is not None:
            pod.task.cancel()

    async def _live(self, pod: Pod) -> None:
        if pod.item.get("status", {}).get("phase") not in ENDED:
            await self._until_ended(pod)
        await pod.deleted.wait()
        if pod.item["status"]["phase"] not in ENDED:
            status = PodStatus(pod.item, self._nodes[pod.node].address)
            await self._write(pod, status.creating(_now()))  # what it waited for is forgotten first
            await self._write(pod, status.never_made(_now()))
        await self._let_go(pod)

    async def _until_ended(self, pod: Pod) -> None:
        script = self._script(pod.item)
        status = PodStatus(pod.item, self._nodes[pod.node].address)
        if pod.item["status"]["phase"] == "Pending" and not await self._starts(pod, script, status):
            return
        if self._runner is not None:
            await self._run(pod, status, self._runner)
        else:
            await self._write(pod, status.running(_now()))
            await self._play(pod, script, status)

    def _refusal(self, pod: Pod, script: PodScript) -> tuple[str, str] | None:
        if script.rejected:
            return script.rejected, "Pod was rejected by the script of the test"
        others = [
            each.item
            for each in self._pods.values()
            if each is not pod and each.admitted and each.node == pod.node and each.item["status"]["phase"] not in ENDED
        ]
        return lacking(self._nodes[pod.node], pod.item, others)

    async def _starts(self, pod: Pod, script: PodScript, status: PodStatus) -> bool:
        """Whether the containers come to run."""
        if (refusal := self._refusal(pod, script)) is not None:
            await self._write(pod, status.rejected(_now(), *refusal))
            return False
        pod.admitted = True
        await self._write(pod, status.creating(_now()))
        if not await self._mounted(pod):
            return False
        if script.pull_error:
            await self._write(pod, status.waiting(_now(), "ErrImagePull", script.pull_error))
            await asyncio.sleep(BACK_OFF_AFTER_S)
            await self._write(pod, status.waiting(_now(), "ImagePullBackOff", script.pull_error))
            await pod.deleted.wait()
            return False
        if await self._deleted_within(pod, script.start_s):
            return False
        if script.init_exit_code:
            await self._write(pod, status.init_failed(_now(), Exit.of(script.init_exit_code), _first_init(pod)))
            return False
        return True

    async def _mounted(self, pod: Pod) -> bool:
        """Whether every ConfigMap of its volumes is there before the pod is deleted; no container starts sooner."""
        for name in _config_maps(pod.item):
            path = f"{pod.path.rpartition('/pods/')[0]}/configmaps/{name}"
            while not await self._is_there(path):
                if pod.deleted.is_set():
                    return False
        return True

    async def _is_there(self, path: str) -> bool:
        """Looked up once for all pods that wait for it, and where it is not there again after a while."""
        look = self._looks.get(path)
        if look is None or (look.done() and not look.result()):
            look = self._looks[path] = asyncio.create_task(self._look(path))
        return await asyncio.shield(look)

    async def _look(self, path: str) -> bool:
        if (await self._insist("GET", path, None)).status == 200:
            return True
        await asyncio.sleep(AGAIN_AFTER_S)
        return False

    async def _play(self, pod: Pod, script: PodScript, status: PodStatus) -> None:
        if await self._deleted_within(pod, script.run_s):
            await asyncio.sleep(min(script.stop_s, pod.grace_s))
            in_time = script.stop_s <= pod.grace_s
            await self._write(pod, status.ended(_now(), Exit.of(script.stop_exit_code if in_time else KILLED)))
        elif script.evicted:
            await self._write(pod, status.evicted(_now(), script.evicted))
        else:
            await self._write(pod, status.ended(_now(), _scripted_exit(script)))

    async def _run(self, pod: Pod, status: PodStatus, runner: Runner) -> None:
        try:
            process = await runner.start(pod.item)
        except InitFailedError as error:
            await self._write(pod, status.init_failed(_now(), error.how, error.container))
            return
        except (RuntimeError, ValueError, KeyError, OSError) as error:
            await self._write(pod, status.waiting(_now(), "CreateContainerConfigError", str(error)))
            return
        waiting = asyncio.create_task(process.wait())
        deleting = asyncio.create_task(pod.deleted.wait())
        try:
            await self._write(pod, status.running(_now()))
            await asyncio.wait({waiting, deleting}, return_when=asyncio.FIRST_COMPLETED)
            how = await waiting if waiting.done() else await process.stop(pod.grace_s)
        except asyncio.CancelledError:
            await process.abandon()
            raise
        finally:
            await end(waiting, deleting)
        await self._write(pod, status.ended(_now(), how))

    async def _deleted_within(self, pod: Pod, time_s: float | None) -> bool:
        if time_s is None:
            await pod.deleted.wait()
        elif time_s > 0:
            sleeping = asyncio.create_task(asyncio.sleep(time_s))
            deleting = asyncio.create_task(pod.deleted.wait())
            try:
                await asyncio.wait({sleeping, deleting}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                await end(deleting)
        return pod.deleted.is_set()

    async def _write(self, pod: Pod, status: Json) -> None:
        """The pod's new status; of a pod that is gone nobody has to know."""
        metadata = {"uid": pod.item["metadata"]["uid"]}
        change = {"metadata": metadata, "status": _with_others(status, pod.item)}
        answer = await self._insist("PATCH", f"{pod.path}/status", change)
        if answer.status == 200:
            pod.item = answer.body

    async def _let_go(self, pod: Pod) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.item["metadata"]["uid"]}}
        await self._insist("DELETE", pod.path, options)

    async def _insist(self, method: str, path: str, body: Json | None) -> Answer:
        """Ask until the server has taken it, or refused it for good."""
        media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                answer = await self._api.ask(method, path, body, media_type=media_type)
                if answer.status < 500 and answer.status != 429:
                    return answer
            await asyncio.sleep(AGAIN_AFTER_S)


def _with_others(status: Json, pod: Json) -> Json:
    """The status with the conditions that others have written, which a kubelet leaves as they are."""
    own = {each["type"] for each in status.get("conditions", ())}
    others = [each for each in pod.get("status", {}).get("conditions", ()) if each["type"] not in own]
    return {**status, "conditions": [*status.get("conditions", ()), *others]} if others else status


def _config_maps(pod: Json) -> set[str]:
    """Those without which its volumes cannot be mounted."""
    volumes = pod["spec"].get("volumes") or []
    sources = [source for volume in volumes for source in (volume, *(volume.get("projected") or {}).get("sources", ()))]
    named = [source["configMap"] for source in sources if "configMap" in source]
    return {config_map["name"] for config_map in named if not config_map.get("optional")}


def _scripted_exit(script: PodScript) -> Exit:
    if script.oom_killed:
        return Exit(KILLED, "OOMKilled")
    return Exit.of(script.exit_code if script.signal is None else 128 + script.signal)


def _first_init(pod: Pod) -> str:
    return str(pod.item["spec"]["initContainers"][0]["name"])


def _now() -> datetime:
    return datetime.now(UTC)
