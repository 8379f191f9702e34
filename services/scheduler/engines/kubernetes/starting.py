"""Starts a gang, all of it or nothing, and nothing twice, wherever the process may die in between.

First comes the record, which will own all else; then its belongings, but for the ConfigMaps with the gang's files; then
all pods, each on the node that was decided, and the Service with their names. No container of theirs can start yet,
since a kubelet starts none before it has mounted every volume, and the files are not there to be mounted. Only when all
of it is there is the gang released, by a change of the record that only one can make and that a stop makes impossible;
and only then are the files made. So as long as a pod may be missing nothing has run, and a repeated start makes what is
missing; afterwards none is made again.

A pod needs one request like this. One that was bound by a request of its own after all are there would need two, and
the API server's time is what the start of a large gang consists of. Where Kubernetes chooses nodes, pods have a
scheduling gate until then, so that none takes a place before the gang is whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from services.scheduler.engines.kubernetes.api import PatientApi
from services.scheduler.engines.kubernetes.crew import for_each
from services.scheduler.engines.kubernetes.errors import is_conflict, is_denied, is_final, is_missing
from services.scheduler.engines.kubernetes.gangs import (
    RECORD_LABEL,
    RECORD_LABEL_VALUE,
    RELEASED_AT,
    GangSeen,
    gang_seen,
)
from services.scheduler.engines.kubernetes.making import Making
from services.scheduler.engines.kubernetes.nodes import Amounts, NodeSeen
from services.scheduler.engines.kubernetes.objects import GangObjects, ObjectSettings, gang_objects
from services.scheduler.engines.kubernetes.objects.record import RELEASED
from services.scheduler.engines.kubernetes.objects.security import namespace
from services.scheduler.engines.kubernetes.paths import ALL_NAMESPACES, collection_path, config_map_path, pod_path
from services.scheduler.engines.kubernetes.picture import Picture
from services.scheduler.ports.engine import PlaceTakenError, StartRefusedError
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.clock import Clock, rfc3339
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError
from shared.kubernetes.documents import Json
from shared.kubernetes.names import PHASE_ANNOTATION, node_id

CREATES_AT_ONCE: Final = 32
_TAKEN_SHOWN: Final = 3
_LEFT: Final = "one of its nodes has left the cluster"


class Starting:
    """Makes gangs."""

    def __init__(
        self, api: PatientApi, picture: Picture, making: Making, settings: ObjectSettings, clock: Clock
    ) -> None:
        self._api = api
        self._picture = picture
        self._making = making
        self._settings = settings
        self._clock = clock

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran, unless a stop was asked for; raises StartRefusedError."""
        objects = gang_objects(gang, self._settings)
        if not objects.files:
            raise StartRefusedError("a gang without files has nothing that could hold its replicas until all are there")
        try:
            record = await self._begin(objects)
            with self._making.of(gang.id, len(gang.replicas)):
                await self._go_on(gang, objects, record)
        except ApiError as error:
            if is_final(error):
                raise StartRefusedError(f"Kubernetes refuses it: {error.said}") from error
            if is_denied(error):
                raise UnavailableError(f"the scheduler lacks a right in Kubernetes: {error.said}") from error
            raise

    async def _go_on(self, gang: GangStart, objects: GangObjects, record: GangSeen) -> None:
        if record.is_creating:
            await self._make(gang, objects, record)
            record = await self._release(record)
        if not record.is_stopping:
            await self._let_go(gang, objects, record)

    # --- the record

    async def _begin(self, objects: GangObjects) -> GangSeen:
        document = _marked(objects.record)
        path = collection_path("ConfigMap", objects.namespace)
        try:
            made = await self._create_in_namespace(path, document, objects.namespace)
        except ApiError as error:
            if not is_conflict(error):
                raise
            made = await self._api.get(f"{path}/{document['metadata']['name']}")
        return self._taken(made)

    async def _create_in_namespace(self, path: str, document: Json, namespace: str) -> Json:
        try:
            return await self._api.create(path, document)
        except ApiError as error:
            if not is_missing(error):
                raise
        if self._settings.namespaces.prefix is None:
            raise StartRefusedError(
                f"there is no namespace {namespace!r} for gangs; whoever runs the platform makes it"
            )
        await self._make_namespace(namespace)
        return await self._api.create(path, document)

    async def _make_namespace(self, name: str) -> None:
        """One in which the API server refuses pods with more rights than jobs may have."""
        await self._ensure(ALL_NAMESPACES, namespace(name, self._settings))

    def _taken(self, document: Json) -> GangSeen:
        """The record as the server has it, which the picture need not wait for."""
        record = gang_seen(document)
        if record is None:
            raise StartRefusedError(f"{document['metadata']['name']} exists already, and is no record of a gang")
        self._picture.take_record(record)
        return record

    async def _release(self, record: GangSeen) -> GangSeen:
        """From here on pods may run; who has changed the record in between has stopped the gang, or released it."""
        notes = {PHASE_ANNOTATION: RELEASED, RELEASED_AT: rfc3339(self._clock.now())}
        path = config_map_path(record.namespace, record.id)
        change = {"metadata": {"resourceVersion": str(record.version), "annotations": notes}}
        try:
            return self._taken(await self._api.patch(path, change))
        except ApiError as error:
            if not is_conflict(error):
                raise
        present = self._taken(await self._api.get(path))
        return await self._release(present) if present.is_creating else present

    # --- what it owns

    async def _make(self, gang: GangStart, objects: GangObjects, record: GangSeen) -> None:
        await self._picture.has_nodes.wait()
        await self._picture.has_others.wait()
        nodes = self._nodes_with_room(gang)
        await self._ensure_all(objects.before_pods(record.uid), record.namespace)
        path = collection_path("Pod", record.namespace)

        async def make(replica: ReplicaStart) -> None:
            pod = objects.pod(replica, record.uid)
            if _is_ours_to_place(gang, replica):
                pod["spec"]["nodeName"] = nodes[replica.node]
            await self._ensure(path, pod)

        await for_each(gang.replicas, make, CREATES_AT_ONCE)
        await self._ensure_all(objects.after_pods(record.uid), record.namespace)

    async def _ensure_all(self, documents: Iterable[Json], namespace: str) -> None:
        for document in documents:
            await self._ensure(collection_path(document["kind"], namespace), document)

    async def _ensure(self, path: str, document: Json) -> None:
        """Make an object, unless it is there; one of that name with another owner is in the way until it is gone."""
        try:
            await self._api.make(path, document)
        except ApiError as error:
            if not is_conflict(error):
                raise
            name = document["metadata"]["name"]
            there = await self._api.find(f"{path}/{name}")
            if there is not None and not _is_same(document, there):
                raise UnavailableError(f"an older {document['kind']} {name} is still in the way") from error
            if there is None:
                await self._api.make(path, document)

    # --- letting it run

    async def _let_go(self, gang: GangStart, objects: GangObjects, record: GangSeen) -> None:
        """Make what the kubelets wait for, and take the gates away where Kubernetes is to choose."""
        await self._ensure_all(objects.at_last(record.uid), record.namespace)
        gated = [replica for replica in gang.replicas if gang.gang_scheduler != "volcano"]
        gated = [replica for replica in gated if replica.pool.binding == "kubernetes"]

        async def open_gate(replica: ReplicaStart) -> None:
            await self._open_gate(pod_path(record.namespace, gang.replica_id(replica)))

        await for_each(gated, open_gate, CREATES_AT_ONCE)

    async def _open_gate(self, path: str) -> None:
        try:
            await self._api.patch(path, {"spec": {"schedulingGates": None}})
        except ApiError as error:
            if not is_missing(error):
                raise

    # --- where it runs

    def _nodes_with_room(self, gang: GangStart) -> dict[str, str]:
        """Names of nodes by id; raises PlaceTakenError where one of the gang's is closed, gone, or taken by others."""
        nodes = {node_id(self._settings.cluster, name): node for name, node in self._picture.nodes.items()}
        wanted: defaultdict[str, Amounts] = defaultdict(Amounts)
        for replica in gang.replicas:
            if _is_ours_to_place(gang, replica):
                wanted[replica.node] += Amounts(replica.cpu_m, replica.memory_bytes or 0, replica.gpus, pods=1)
        found = (self._problem(nodes.get(node), asked) for node, asked in wanted.items())
        problems = [problem for problem in found if problem]
        if problems:
            raise PlaceTakenError("; ".join(problems[:_TAKEN_SHOWN]))
        return {node: seen.name for node, seen in nodes.items()}

    def _problem(self, node: NodeSeen | None, asked: Amounts) -> str:
        if node is None:
            return _LEFT
        if node.not_ready_since is not None or node.closed_because:
            return f"node {node.name} takes no pods any more: {node.not_ready_because or node.closed_because}"
        left = node.offered - self._picture.held_by_others(node.name)
        return "" if asked.fits(left) else f"others have taken what it needs on node {node.name}"


def _is_ours_to_place(gang: GangStart, replica: ReplicaStart) -> bool:
    return gang.gang_scheduler == "trainmaster" and replica.pool.binding == "scheduler"


def _marked(record: Json) -> Json:
    """The record with the label by which records are watched."""
    metadata = record["metadata"]
    return {**record, "metadata": {**metadata, "labels": {**metadata["labels"], RECORD_LABEL: RECORD_LABEL_VALUE}}}


def _is_same(wanted: Json, there: Json) -> bool:
    """Whether an object of that name is the one that is wanted: of the same owner, and not about to go."""
    if there["metadata"].get("deletionTimestamp"):
        return False
    return _owners(wanted) == _owners(there)


def _owners(document: Json) -> set[str]:
    return {owner["uid"] for owner in document["metadata"].get("ownerReferences") or ()}
