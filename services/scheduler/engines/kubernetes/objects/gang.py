"""All objects of a gang: what has to be made for it, in which order, worked out from its start alone.

The record comes first; its uid then makes it the owner of all else. The same start gives the same objects, so that what
exists already is what would have been made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

from services.scheduler.engines.kubernetes.objects.code import TICKET_VARIABLE, Laid, laid_code, laid_files
from services.scheduler.engines.kubernetes.objects.environment import DEVICE_VARIABLES, common_variables
from services.scheduler.engines.kubernetes.objects.manifest import Json, object_of, owned
from services.scheduler.engines.kubernetes.objects.mounts import mount_volumes
from services.scheduler.engines.kubernetes.objects.network import network_policy, service
from services.scheduler.engines.kubernetes.objects.packing import packed, too_large
from services.scheduler.engines.kubernetes.objects.pod_group import pod_group
from services.scheduler.engines.kubernetes.objects.pods import PodShape
from services.scheduler.engines.kubernetes.objects.record import record_config_map
from services.scheduler.engines.kubernetes.objects.secrets import pull_secret, secret
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.engines.kubernetes.objects.volumes import Volume, scratch
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.admission.locations import within
from shared.environment import ETC_DIR
from shared.kubernetes.names import FILES_CONTAINER, TENSORBOARD_VOLUME

_HOSTFILE: Final = "hostfile"


@dataclass(frozen=True, slots=True)
class GangObjects:
    """The record, what belongs to it beside the pods, and what pods look like.

    `files` are names of the ConfigMaps without which no container of its pods can start.
    """

    record: Json
    belongings: tuple[Json, ...]
    shape: PodShape
    files: frozenset[str]

    @property
    def namespace(self) -> str:
        """Where all of it is."""
        return self.shape.namespace

    def owned_by(self, uid: str) -> Iterator[Json]:
        """Everything beside the pods, as belongings of the record with this uid, in the order in which to make it."""
        return (owned(each, self.record["metadata"]["name"], uid) for each in self.belongings)

    def before_pods(self, uid: str) -> Iterator[Json]:
        """What pods are made after: what they read, what keeps their network to themselves, and who places them."""
        return (each for each in self.owned_by(uid) if not self._is_last(each) and each["kind"] != "Service")

    def after_pods(self, uid: str) -> Iterator[Json]:
        """Their Service: while there is one, Kubernetes goes through all of its pods with each that is added."""
        return (each for each in self.owned_by(uid) if each["kind"] == "Service")

    def at_last(self, uid: str) -> Iterator[Json]:
        """The files, without which no container can start."""
        return (each for each in self.owned_by(uid) if self._is_last(each))

    def _is_last(self, belonging: Json) -> bool:
        return belonging["metadata"]["name"] in self.files

    def pod(self, replica: ReplicaStart, uid: str) -> Json:
        """One replica's pod as a belonging of the record with this uid."""
        return owned(self.shape.pod(replica), self.record["metadata"]["name"], uid)


def gang_objects(gang: GangStart, settings: ObjectSettings) -> GangObjects:
    """Everything that a gang needs; raises StartRefusedError where it cannot be had in this cluster."""
    return _Draft.of(gang, settings).objects()


@dataclass(frozen=True, slots=True)
class _Draft:
    gang: GangStart
    settings: ObjectSettings
    namespace: str
    variables: dict[str, str]
    laid: tuple[Laid, ...]
    files: tuple[dict[str, str], ...]

    @classmethod
    def of(cls, gang: GangStart, settings: ObjectSettings) -> Self:
        _check(gang)
        code = laid_code(gang, settings)
        unfit = too_large(gang.files.values())
        laid = (*((laid_files(gang),) if unfit else ()), *((code,) if code else ()))
        if laid and not settings.platform_image:
            raise StartRefusedError(
                "code is laid by the platform's own image, and it was not told which that is; see docs/kubernetes.md"
            )
        files = () if unfit else packed({key: gang.files[name] for name, key in _keys(gang).items()})
        return cls(gang, settings, settings.namespaces.of(gang.project), common_variables(gang, settings), laid, files)

    def objects(self) -> GangObjects:
        record = record_config_map(self.gang, self.namespace, self.settings.cluster)
        laid = {laid.config_map for laid in self.laid if laid.target.path == ETC_DIR}
        files = frozenset(laid | {name for name, _ in self._parts("files", self.files)})
        return GangObjects(record, tuple(self._belongings()), self._shape(), files)

    def _belongings(self) -> Iterator[Json]:
        gang, namespace, settings = self.gang, self.namespace, self.settings
        for name, data in (*self._parts("env", self._env), *self._parts("files", self.files)):
            yield self._config_map(name, {"data": data})
        for laid in self.laid:
            if laid.config_map:
                yield self._config_map(laid.config_map, {"binaryData": laid.contents})
        if self._secrets:
            yield secret(gang.id, self._secrets, gang, namespace, settings)
        if self._tickets:
            yield secret(self._tickets_name, self._tickets, gang, namespace, settings)
        if gang.image_pull_secret is not None:
            yield pull_secret(self._pull_secret, gang.image_pull_secret, gang, namespace, settings)
        yield service(gang, namespace, settings)
        yield network_policy(gang, namespace, settings, fetches_code=any(laid.ticket for laid in self.laid))
        if gang.gang_scheduler == "volcano":
            yield pod_group(gang, namespace, settings)

    @property
    def _env(self) -> tuple[dict[str, str], ...]:
        return packed(self.variables)

    @property
    def _secrets(self) -> dict[str, str]:
        """What replicas see alone."""
        return {name: value for name, value in self.gang.secrets.items() if name not in DEVICE_VARIABLES}

    @property
    def _tickets(self) -> dict[str, str]:
        """What init containers alone may see; only one of them fetches something."""
        ticket = next((laid.ticket for laid in self.laid if laid.ticket), "")
        return {TICKET_VARIABLE: ticket} if ticket else {}

    @property
    def _tickets_name(self) -> str:
        return f"{self.gang.id}-code"

    @property
    def _pull_secret(self) -> str:
        return f"{self.gang.id}-pull"

    def _parts(self, kind: str, parts: tuple[dict[str, str], ...]) -> list[tuple[str, dict[str, str]]]:
        return [(f"{self.gang.id}-{kind}-{position}", part) for position, part in enumerate(parts)]

    def _config_map(self, name: str, body: Json) -> Json:
        document = object_of("ConfigMap", name, self.gang, self.namespace, self.settings.cluster)
        return {**document, "immutable": True, **body}

    def _shape(self) -> PodShape:
        gang = self.gang
        return PodShape(
            gang=gang,
            settings=self.settings,
            namespace=self.namespace,
            common=self.variables,
            env_from=self._env_from(),
            volumes=tuple(self._volumes()),
            laid=self.laid,
            tickets=self._tickets_name,
            pull_secret=self._pull_secret if gang.image_pull_secret is not None else "",
        )

    def _env_from(self) -> list[Json]:
        config_maps: list[Json] = [{"configMapRef": {"name": name}} for name, _ in self._parts("env", self._env)]
        return [*config_maps, {"secretRef": {"name": self.gang.id}}] if self._secrets else config_maps

    def _volumes(self) -> Iterator[Volume]:
        mounts = mount_volumes(self.gang, self.settings.volumes)
        laid = tuple(laid.target for laid in self.laid)
        files = self._files() if self.files else next((each for each in laid if each.name == FILES_CONTAINER), None)
        yield from mounts
        if self.files and files is not None:
            yield files
        second = self.gang.hostfile_at
        if files is not None and second is not None and not _has(second, mounts):
            yield replace(files, path=second, sub_path=_HOSTFILE, read_only=True)
        directory = self.gang.tensorboard_dir
        if directory is not None and not _has(directory, (*mounts, *laid)):
            yield scratch(TENSORBOARD_VOLUME, directory)

    def _files(self) -> Volume:
        """The gang's files, put together from ConfigMaps."""
        names = {key: name for name, key in _keys(self.gang).items()}
        sources = [
            {"configMap": {"name": name, "items": [{"key": key, "path": names[key]} for key in part]}}
            for name, part in self._parts("files", self.files)
        ]
        return Volume(FILES_CONTAINER, {"projected": {"sources": sources}}, ETC_DIR, read_only=True)


def _has(path: str, volumes: Iterable[Volume]) -> bool:
    return any(within(path, volume.path) for volume in volumes)


def _keys(gang: GangStart) -> dict[str, str]:
    """Keys of the files, which have no slashes, by their names."""
    return {name: name.replace("/", ".") for name in gang.files}


def _check(gang: GangStart) -> None:
    if not gang.image:
        raise StartRefusedError("a job needs an image here; give one as spec.image, such as registry.example/train:1")
    for replica in gang.replicas:
        if any("\0" in text for text in (replica.command, *replica.env.values())):
            raise StartRefusedError(f"role {replica.role}: no command and no variable may contain a NUL character")
