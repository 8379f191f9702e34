"""The lane in which pods are watched and their output is copied, until cancelled.

A pass is made when something changed in a log directory, when there is news of a pod, and once a second anyway; files
are looked for where something came or went. Copying runs in a thread, a piece of each log at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

from services.agent.inotify import Inotify
from services.agent.kubernetes.keeper import PodKeeper
from services.agent.kubernetes.pods import Pod, pod_of
from services.agent.lanes import survived
from shared.clock import Clock
from shared.ids import DNS_LABEL_MAX
from shared.kubernetes.access import KubernetesApi
from shared.kubernetes.documents import Json
from shared.kubernetes.names import CLUSTER_LABEL, MANAGED_SELECTOR
from shared.kubernetes.namespaces import Namespaces, fitting
from shared.kubernetes.watch import ApiCollection, follow

COALESCE_S: Final = 0.02
REST_WATCHED_S: Final = 1.0
REST_UNWATCHED_S: Final = 0.1


class PodLane:
    """Feeds the keeper with news, and makes its passes; `changed` is called when a log has grown or ended."""

    def __init__(self, keeper: PodKeeper, inotify: Inotify, clock: Clock, changed: Callable[[], None]) -> None:
        self._keeper = keeper
        self._inotify = inotify
        self._clock = clock
        self._changed = changed
        self._woken = asyncio.Event()
        self._look_at = 0.0

    async def watch(self, api: KubernetesApi, node_name: str, cluster: str, namespaces: Namespaces) -> None:
        """Follow the pods of the node that are this platform's; labels of others may say anything."""
        labels = f"{MANAGED_SELECTOR},{CLUSTER_LABEL}={fitting(cluster, DNS_LABEL_MAX)}"
        collection = ApiCollection(api, "/api/v1/pods", labels=labels, fields=f"spec.nodeName={node_name}")

        def read(given: Json) -> Pod | None:
            return pod_of(given) if namespaces.have(given["metadata"]["namespace"]) else None

        async with aclosing(follow(collection, read, self._clock)) as news:
            async for each in news:
                self._keeper.tell(each)
                self._woken.set()

    async def run(self) -> None:
        """Copy."""
        while True:
            await survived(self.make_pass(asyncio.get_running_loop().time()))
            await asyncio.sleep(COALESCE_S)
            self._inotify.wake_once(self._woken)
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_WATCHED_S if self._inotify.available else REST_UNWATCHED_S):
                    await self._woken.wait()

    async def make_pass(self, now: float) -> None:
        """Copy what there is."""
        self._woken.clear()
        came_or_went = self._inotify.available and self._inotify.drain()
        look = came_or_went or now >= self._look_at
        if look:
            self._look_at = now + REST_WATCHED_S
        while await asyncio.to_thread(self._keeper.make_pass, now, look=look):
            self._changed()
            look = False
        self._inotify.watch(await asyncio.to_thread(self._keeper.watched))
