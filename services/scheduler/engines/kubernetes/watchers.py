"""Keeps the picture: one watch for records, one for our pods, one for nodes, one for the pods of others.

Ours are told from others' by labels, so that neither watch brings what only the other needs. Where the platform may see
one namespace alone there is no watch of others' pods, and nothing is known of what they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog

from services.scheduler.engines.kubernetes.gangs import RECORD_LABEL, RECORD_LABEL_VALUE, gang_seen
from services.scheduler.engines.kubernetes.making import Making
from services.scheduler.engines.kubernetes.nodes import NodeReading, node_seen, other_pod
from services.scheduler.engines.kubernetes.paths import ALL_NODES, collection_path
from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.engines.kubernetes.pod_stream import PodStream
from services.scheduler.engines.kubernetes.pods import pod_seen
from shared.clock import Clock
from shared.ids import DNS_LABEL_MAX
from shared.kubernetes.access import KubernetesApi
from shared.kubernetes.documents import Json
from shared.kubernetes.names import CLUSTER_LABEL
from shared.kubernetes.namespaces import Namespaces, fitting
from shared.kubernetes.watch import SILENCE_S, ApiCollection, Collection, Told, follow
from shared.tasks import run_together

SeenT = TypeVar("SeenT")

_log = structlog.get_logger(service="scheduler")
_NOT_ENDED: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is watched: objects of this cluster's name where gangs may be, and how nodes are read."""

    cluster: str
    namespaces: Namespaces = field(default_factory=Namespaces)
    sees_others: bool = True
    reading: NodeReading = field(default_factory=NodeReading)
    silence_s: float = SILENCE_S

    @property
    def namespace(self) -> str:
        """The one in which all gangs are; empty where they are in several."""
        return self.namespaces.shared if self.namespaces.prefix is None else ""

    def ours(self, read: Callable[[Json], SeenT | None]) -> Callable[[Json], SeenT | None]:
        """What is read of an object that can be read, and is not where others may make what they like."""

        def checked(document: Json) -> SeenT | None:
            metadata = document["metadata"]
            if not self.namespaces.have(metadata["namespace"]):
                return None
            try:
                return read(document)
            except Exception:  # noqa: BLE001  # one object that nobody had thought of must not hide all others
                _log.exception("object_not_read", namespace=metadata["namespace"], name=metadata["name"])
                return None

        return checked


class Watchers:
    """Follows everything for ever."""

    def __init__(self, api: KubernetesApi, scope: Scope, picture: Picture, making: Making, clock: Clock) -> None:
        self._api = api
        self._scope = scope
        self._picture = picture
        self._making = making
        self._clock = clock

    @property
    def _label(self) -> str:
        return fitting(self._scope.cluster, DNS_LABEL_MAX)

    async def run(self) -> None:
        """Keep the picture up until cancelled."""
        scope, picture = self._scope, self._picture
        ours = f"{CLUSTER_LABEL}={self._label}"
        records = self._collection("ConfigMap", labels=f"{ours},{RECORD_LABEL}={RECORD_LABEL_VALUE}")
        pods = PodStream(self._collection("Pod", labels=ours), self._making, picture.pods_are_asked_for)
        nodes = ApiCollection(self._api, ALL_NODES, silence_s=scope.silence_s)
        read_node = partial(node_seen, reading=scope.reading, cluster=scope.cluster)
        if not scope.sees_others:
            picture.has_others.set()
        await run_together(
            self._follow(records, scope.ours(gang_seen), picture.take_gangs),
            self._follow_pods(pods),
            self._follow(nodes, read_node, picture.take_nodes),
            *([self._follow_others()] if scope.sees_others else []),
        )

    async def _follow_pods(self, pods: Collection) -> None:
        """After the records: a released gang whose pod a later list does not have has lost it."""
        await self._picture.has_gangs.wait()
        await self._follow(pods, self._scope.ours(pod_seen), self._picture.take_pods)

    async def _follow_others(self) -> None:
        path = collection_path("Pod")
        labels = f"{CLUSTER_LABEL}!={self._label}"
        others = ApiCollection(self._api, path, labels=labels, fields=_NOT_ENDED, silence_s=self._scope.silence_s)
        await self._follow(others, partial(other_pod, reading=self._scope.reading), self._picture.take_others)

    def _collection(self, kind: str, labels: str) -> ApiCollection:
        path = collection_path(kind, self._scope.namespace)
        return ApiCollection(self._api, path, labels=labels, silence_s=self._scope.silence_s)

    async def _follow(
        self, collection: Collection, read: Callable[[Json], SeenT], take: Callable[[Told[SeenT]], None]
    ) -> None:
        async with aclosing(follow(collection, read, self._clock)) as told:
            async for news in told:
                take(news)
