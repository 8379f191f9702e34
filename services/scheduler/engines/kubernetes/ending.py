"""Stops gangs, and removes those that are forgotten.

A stop is written into the record first, so that no start goes on from there; then every pod that has not ended is
deleted with the grace. Pods that have ended stay, since their logs go with them; and so does the record, until the
agents of the nodes have shipped all that was written and nobody wants to look at the gang any more. With the record
goes everything that it owns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog

from services.scheduler.engines.kubernetes.api import PatientApi
from services.scheduler.engines.kubernetes.crew import for_each
from services.scheduler.engines.kubernetes.errors import is_conflict, is_missing
from services.scheduler.engines.kubernetes.gangs import (
    FORGOTTEN_AT,
    KEEP_UNTIL,
    STOPPED_AT,
    GangSeen,
    gang_seen,
    phase_of,
)
from services.scheduler.engines.kubernetes.objects.record import FORGOTTEN, STOPPING
from services.scheduler.engines.kubernetes.paths import collection_path, config_map_path, pod_path
from services.scheduler.engines.kubernetes.picture import GangLife, Picture
from services.scheduler.engines.kubernetes.pods import PodSeen, pod_seen
from shared.clock import Clock, rfc3339
from shared.errors import UnavailableError
from shared.ids import GangId
from shared.kubernetes.access import ApiError
from shared.kubernetes.documents import Json
from shared.kubernetes.names import GANG_LABEL, PHASE_ANNOTATION

DELETES_AT_ONCE: Final = 32
SHIPPING_PATIENCE: Final = timedelta(hours=1)
STRAYS_GRACE_S: Final = 30.0


class Shipments(Protocol):
    """Asks agents what has become of logs."""

    async def is_shipped(self, gang: GangId, nodes: Iterable[str]) -> bool:
        """Whether the agents of these nodes (by name) have shipped all of the gang's logs."""
        ...


class Ending:
    """Stops and removes gangs."""

    def __init__(self, api: PatientApi, picture: Picture, shipments: Shipments, clock: Clock) -> None:
        self._api = api
        self._picture = picture
        self._shipments = shipments
        self._clock = clock
        self._log = structlog.get_logger(service="scheduler")

    async def stop(self, gang: GangId, namespace: str, grace_s: float) -> bool:
        """Have every pod of the gang end, though its record may be spoilt; False where there is no such gang."""
        record = await self._mark(gang, namespace, STOPPING, {STOPPED_AT: rfc3339(self._clock.now())})
        documents = await self._api.all(collection_path("Pod", namespace), f"{GANG_LABEL}={gang}")
        pods = [pod for pod in map(pod_seen, documents) if pod is not None and pod.ended is None]

        async def delete(pod: PodSeen) -> None:
            await self._delete_pod(pod, grace_s)

        await for_each(pods, delete, DELETES_AT_ONCE)
        return bool(record or documents)

    async def forget(self, gang: GangId, namespace: str, keep_until: datetime | None) -> None:
        """Every end is on record: remove the gang once its logs are shipped, and not before `keep_until`."""
        notes = {FORGOTTEN_AT: rfc3339(self._clock.now())}
        if keep_until is not None:
            notes[KEEP_UNTIL] = rfc3339(keep_until)
        document = await self._mark(gang, namespace, FORGOTTEN, notes)
        if document is not None and gang_seen(document) is not None:
            return
        self._picture.drop(gang)
        if document is not None:
            self._log.warning("spoilt_record_removed", gang=gang)
            await self._remove(gang, namespace, document["metadata"]["uid"])

    async def clear_away(self) -> None:
        """Remove forgotten gangs that nobody needs any more; what fails is tried again the next time."""
        for gang, life in list(self._picture.gangs.items()):
            if life.record is None or not life.record.is_forgotten or life.is_record_gone:
                continue
            try:
                await self._end_strays(life)
                if await self._is_done_with(life.record, life):
                    await self._remove(life.record.id, life.record.namespace, life.record.uid)
            except (ApiError, UnavailableError) as error:
                self._log.warning("gang_not_removed", gang=gang, reason=error.message)

    async def _end_strays(self, life: GangLife) -> None:
        """Nobody waits for what still runs of a forgotten gang: it was given up, with its node or its cluster."""
        for pod in list(life.pods.values()):
            if pod.ended is None and pod.deleted_at is None:
                await self._delete_pod(pod, STRAYS_GRACE_S)

    async def _mark(self, gang: GangId, namespace: str, phase: str, notes: Json) -> Json | None:
        """Move the gang on, never back: its record as it is then, None where there is no such gang."""
        path = config_map_path(namespace, gang)
        while True:
            document = await self._api.find(path)
            if document is None or phase_of(document) in (phase, FORGOTTEN):
                return document
            version = document["metadata"]["resourceVersion"]
            change = {"metadata": {"resourceVersion": version, "annotations": {PHASE_ANNOTATION: phase, **notes}}}
            try:
                document = await self._api.patch(path, change)
            except ApiError as error:
                if is_missing(error):
                    return None
                if not is_conflict(error):
                    raise
            else:
                record = gang_seen(document)
                if record is not None:
                    self._picture.take_record(record)
                return document

    async def _delete_pod(self, pod: PodSeen, grace_s: float) -> None:
        """A node that is lost confirms nothing: its pods are deleted without it."""
        lost = pod.node and self._picture.loss(pod.node) is not None
        grace = 0 if lost else max(math.ceil(grace_s), 1)
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}}
        try:
            await self._api.delete(pod_path(pod.namespace, pod.name), options)
        except ApiError as error:
            if not is_conflict(error):
                raise

    async def _is_done_with(self, record: GangSeen, life: GangLife) -> bool:
        now = self._clock.now()
        if record.keep_until is not None and now < record.keep_until:
            return False
        if record.forgotten_at is None or now - record.forgotten_at > SHIPPING_PATIENCE:
            self._log.warning("logs_not_shipped", gang=record.id, waited_s=SHIPPING_PATIENCE.total_seconds())
            return True
        last = [pod.pod for pod in life.gone.values()]
        nodes = {pod.node for pod in (*life.pods.values(), *last) if pod.node and pod.started_at}
        return not nodes or await self._shipments.is_shipped(record.id, sorted(nodes))

    async def _remove(self, gang: GangId, namespace: str, uid: str) -> None:
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        await self._api.delete(config_map_path(namespace, gang), options)
        self._log.info("gang_removed", gang=gang)
