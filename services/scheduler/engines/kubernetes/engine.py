"""The Kubernetes engine: what stands behind the `Engine` port where replicas are pods.

The API server holds all state, so that any number of schedulers see the same and the one that leads can die at any
moment. `open` begins to watch; whatever is asked before the first lists have come waits for them, and while the server
is away afterwards the last picture stays. Calls about one gang follow each other.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

import structlog

from services.scheduler.domain.nodes import NodeState
from services.scheduler.engines.kubernetes.api import Patience, PatientApi
from services.scheduler.engines.kubernetes.ending import Ending, Shipments
from services.scheduler.engines.kubernetes.execution import KubernetesExecution
from services.scheduler.engines.kubernetes.gangs import RECORD_LABEL
from services.scheduler.engines.kubernetes.inquiries import Inquiries
from services.scheduler.engines.kubernetes.making import LARGE, Making
from services.scheduler.engines.kubernetes.nodes import NodeReading, node_offer
from services.scheduler.engines.kubernetes.notebook import Notebook
from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.observing import Observer
from services.scheduler.engines.kubernetes.paths import collection_path
from services.scheduler.engines.kubernetes.picture import GangLife, Picture
from services.scheduler.engines.kubernetes.starting import Starting
from services.scheduler.engines.kubernetes.volcano import Volcano
from services.scheduler.engines.kubernetes.watchers import Scope, Watchers
from services.scheduler.ports.engine import Inventory
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import Observation
from services.scheduler.ports.sandboxes import ExecRefusedError, Execution, KeptSandbox
from shared.attempts import replica_key
from shared.clock import Clock
from shared.ids import GangId
from shared.kubernetes.access import KubernetesApi
from shared.kubernetes.names import GANG_LABEL
from shared.kubernetes.watch import SILENCE_S
from shared.tasks import end

CLEAR_AWAY_S: Final = 5.0
INQUIRE_S: Final = 5.0
VOLCANO_S: Final = 60.0
WATCH_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How one cluster is used.

    A node of which nothing is heard for `lost_after_s` is lost, with the replicas on it. `sees_others` is whether the
    platform may know what pods of others hold. Pods that wait for more than `inquire_s` are asked why, as often.
    Pods of a gang of so many as `large` are not watched while they are being made.
    """

    objects: ObjectSettings = field(default_factory=ObjectSettings)
    reading: NodeReading = field(default_factory=NodeReading)
    lost_after_s: float = 300.0
    sees_others: bool = True
    silence_s: float = SILENCE_S
    patience: Patience = field(default_factory=Patience)
    clear_away_s: float = CLEAR_AWAY_S
    inquire_s: float = INQUIRE_S
    large: int = LARGE


class KubernetesEngine:
    """Runs replicas as pods of one cluster."""

    lays_data: Final = False

    def __init__(self, settings: EngineSettings, api: KubernetesApi, shipments: Shipments, clock: Clock) -> None:
        self._settings = settings
        self._raw_api = api
        self._api = PatientApi(api, clock, settings.patience)
        self._clock = clock
        self._picture = Picture(clock, settings.lost_after_s)
        self._notebook = Notebook(self._api, self._picture, clock)
        self._making = Making(settings.large)
        self._starting = Starting(self._api, self._picture, self._making, settings.objects, clock)
        self._ending = Ending(self._api, self._picture, shipments, clock)
        self._volcano = Volcano(api, self._scope().namespace)
        self._inquiries = Inquiries(api, self._picture, clock, settings.inquire_s)
        self._namespaces: dict[GangId, str] = {}
        self._one_call_at_a_time: defaultdict[GangId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._working: tuple[asyncio.Task[None], ...] = ()
        self._log = structlog.get_logger(service="scheduler", cluster=settings.objects.cluster)

    @classmethod
    async def open(cls, settings: EngineSettings, api: KubernetesApi, shipments: Shipments, clock: Clock) -> Self:
        """The engine over a cluster, which it watches from now on."""
        engine = cls(settings, api, shipments, clock)
        works = (engine._watch(), engine._inquire(), engine._look_for_volcano())
        engine._working = tuple(asyncio.create_task(work) for work in works)
        return engine

    async def close(self) -> None:
        """Let go of everything; replicas run on."""
        await end(*self._working)
        await self._notebook.close()
        await self._raw_api.close()

    async def inventory(self) -> Inventory:
        """Nodes with what they offer beside what others hold; while the API server is away they are lost."""
        picture, cluster = self._picture, self._settings.objects.cluster
        await picture.has_nodes.wait()
        await picture.has_others.wait()
        await self._volcano.asked.wait()
        nodes = sorted(picture.nodes.values(), key=lambda node: node.name)
        offers = tuple(node_offer(node, picture.held_by_others(node.name), cluster) for node in nodes)
        silence = picture.silence()
        if silence is not None:
            away = f"the API server of cluster {cluster} is away: {silence.because}"
            offers = tuple(replace(offer, state=NodeState.LOST, because=away) for offer in offers)
        volumes = self._settings.objects.volumes
        return Inventory(
            offers,
            schemes=volumes.schemes,
            file_prefixes=volumes.host_prefixes,
            engine="kubernetes",
            no_volcano_because=self._volcano.obstacle,
        )

    async def start(self, gang: GangStart) -> None:
        """Start every replica that never ran; none where a stop was asked for. Raises StartRefusedError."""
        async with self._one_call_at_a_time[gang.id]:
            self._namespaces[gang.id] = self._settings.objects.namespaces.of(gang.project)
            await self._starting.start(gang)

    async def observe(self) -> AsyncIterator[Observation]:
        """What is known of every gang that is not forgotten, then `CaughtUp`, then what happens, without end."""
        observer = Observer(self._picture, self._settings.objects.cluster, self._clock, self._notebook.note)
        clearing = asyncio.create_task(self._clear_away())
        try:
            async for observation in observer.reports():
                yield observation
        finally:
            await end(clearing)

    async def stop(self, gang_id: GangId, grace_s: float) -> bool:
        """Have every replica end within the grace; False where the gang is not known."""
        async with self._one_call_at_a_time[gang_id]:
            namespace = await self._namespace(gang_id)
            stopped = namespace is not None and await self._ending.stop(gang_id, namespace, grace_s)
        return stopped or self._is_known(gang_id)

    async def forget(self, gang_id: GangId, keep_until: datetime | None = None) -> None:
        """Report the gang no more, and remove it once its logs are shipped and nobody wants to look at it."""
        async with self._one_call_at_a_time[gang_id]:
            namespace = await self._namespace(gang_id)
            if namespace is not None:
                await self._ending.forget(gang_id, namespace, keep_until)
        self._namespaces.pop(gang_id, None)
        self._one_call_at_a_time.pop(gang_id, None)

    async def execute(
        self, gang_id: GangId, role: str, index: int, command: tuple[str, ...], limit_s: float
    ) -> Execution:
        """One more command in a running replica's container; raises ExecRefusedError."""
        life = self._picture.gangs.get(gang_id)
        pod = life.pods.get((role, index)) if life is not None else None
        if pod is None or pod.started_at is None or pod.ended is not None:
            raise ExecRefusedError(f"replica {role}-{index} of {gang_id} does not run, so that it has no container")
        return KubernetesExecution(self._raw_api, pod.namespace, pod.name, command, limit_s)

    def kept(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of ended attempts of the job."""
        now = self._clock.now()
        lives = [life for life in self._picture.gangs.values() if life.record is not None and life.record.is_forgotten]
        return tuple(held for life in lives if (held := _kept(life, job, now)) is not None)

    def holdups(self, gang_id: GangId) -> Mapping[str, str]:
        """Why replicas of the gang do not run yet, from what their pods say now."""
        life = self._picture.gangs.get(gang_id)
        keys = life.record.replicas if life is not None and life.record is not None else ()
        found = {replica_key(*key): self._picture.judge(gang_id, key).waiting for key in keys}
        return {key: why for key, why in found.items() if why}

    def _scope(self) -> Scope:
        settings = self._settings
        return Scope(
            cluster=settings.objects.cluster,
            namespaces=settings.objects.namespaces,
            sees_others=settings.sees_others,
            reading=settings.reading,
            silence_s=settings.silence_s,
        )

    async def _watch(self) -> None:
        """Follow the cluster for ever; after something that nobody had thought of all is listed anew."""
        while True:
            try:
                await Watchers(self._raw_api, self._scope(), self._picture, self._making, self._clock).run()
            except Exception:  # noqa: BLE001  # whatever it is, a scheduler must not become blind
                self._log.exception("watches_broken")
            await self._clock.sleep(WATCH_AGAIN_S)

    async def _look_for_volcano(self) -> None:
        while True:
            await self._volcano.ask()
            await self._clock.sleep(VOLCANO_S)

    async def _inquire(self) -> None:
        while True:
            await self._clock.sleep(self._settings.inquire_s)
            try:
                await self._inquiries.ask()
            except Exception:  # noqa: BLE001  # an event that nobody had thought of
                self._log.exception("inquiries_broken")

    async def _clear_away(self) -> None:
        while True:
            await self._ending.clear_away()
            await self._clock.sleep(self._settings.clear_away_s)

    async def _namespace(self, gang: GangId) -> str | None:
        """Where the gang is; the picture may not show yet what another scheduler has just made."""
        life = self._picture.gangs.get(gang)
        if life is not None and life.record is not None:
            return life.record.namespace
        if gang in self._namespaces:
            return self._namespaces[gang]
        namespaces = self._settings.objects.namespaces
        path = collection_path("ConfigMap", namespaces.shared if namespaces.prefix is None else "")
        found = await self._api.all(path, f"{GANG_LABEL}={gang},{RECORD_LABEL}")
        return found[0]["metadata"]["namespace"] if found else None

    def _is_known(self, gang: GangId) -> bool:
        """Whether something of it is still to be reported, though its record may be gone."""
        life = self._picture.gangs.get(gang)
        return life is not None and life.record is not None and life.record.released_at is not None


def _kept(life: GangLife, job: str, now: datetime) -> KeptSandbox | None:
    record = life.record
    first = next(iter(record.replicas.values()), None) if record is not None else None
    if record is None or first is None or first.job != job or record.keep_until is None or record.keep_until <= now:
        return None
    pod = life.pods.get((first.role, first.index))
    return KeptSandbox(first.attempt, pod.node if pod else "", f"{record.namespace}/{first.id}", record.keep_until)
