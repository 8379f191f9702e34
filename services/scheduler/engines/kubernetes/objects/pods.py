"""The pod of a replica. What all pods of a gang have alike is worked out once; a pod adds its name, node and index."""

from __future__ import annotations

import math
from dataclasses import dataclass

from services.scheduler.engines.kubernetes.objects.code import Laid, init_container
from services.scheduler.engines.kubernetes.objects.command import command_line
from services.scheduler.engines.kubernetes.objects.environment import own_variables
from services.scheduler.engines.kubernetes.objects.labels import human_names, replica_labels
from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.pod_group import GROUP_NAME
from services.scheduler.engines.kubernetes.objects.resources import preparing_resources, resources
from services.scheduler.engines.kubernetes.objects.scheduling import scheduling
from services.scheduler.engines.kubernetes.objects.security import container_security, pod_security
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.engines.kubernetes.objects.volumes import Volume, manifests, shared_memory
from services.scheduler.ports.gangs import GangStart, ReplicaStart
from shared.kubernetes.names import (
    CHECKPOINTS_ANNOTATION,
    CODE_CONTAINER,
    REPLICA_CONTAINER,
    TENSORBOARD_ANNOTATION,
)


@dataclass(frozen=True, slots=True)
class PodShape:
    """What all pods of one gang have alike."""

    gang: GangStart
    settings: ObjectSettings
    namespace: str
    common: dict[str, str]
    env_from: list[Json]
    volumes: tuple[Volume, ...]
    laid: tuple[Laid, ...]
    tickets: str
    pull_secret: str = ""

    def pod(self, replica: ReplicaStart) -> Json:
        """The manifest of one replica's pod."""
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._metadata(replica), "spec": self._spec(replica)}

    def _metadata(self, replica: ReplicaStart) -> Json:
        gang = self.gang
        volcano = {GROUP_NAME: gang.id} if gang.gang_scheduler == "volcano" else {}
        return {
            "name": gang.replica_id(replica),
            "namespace": self.namespace,
            "labels": replica_labels(gang, replica, self.settings.cluster),
            "annotations": {**human_names(gang), **volcano, **self._written_places(replica)},
        }

    def _written_places(self, replica: ReplicaStart) -> Json:
        """Where event files and checkpoints are; told of rank 0 only, since on a mount all replicas share them."""
        named = {TENSORBOARD_ANNOTATION: self.gang.tensorboard_dir, CHECKPOINTS_ANNOTATION: self.gang.checkpoint_dir}
        is_first = replica is self.gang.replicas[0]
        return {name: directory for name, directory in named.items() if directory and is_first}

    def _spec(self, replica: ReplicaStart) -> Json:
        volumes = (shared_memory(replica, self.settings), *self.volumes)
        inputs = (volume for laid in self.laid for volume in (laid.target, *laid.inputs))
        secrets = filter(None, (self.pull_secret, *(self.settings.pull_secrets if self.laid else ())))
        pull = [{"name": name} for name in secrets]
        return {
            "hostname": self.gang.replica_id(replica),
            "subdomain": self.gang.id,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": math.ceil(self.gang.termination_grace_s),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(self.settings.user_of(replica)),
            "initContainers": [init_container(laid, self._preparing(replica), self.tickets) for laid in self.laid],
            "containers": [self._main(replica, volumes)],
            "volumes": manifests((*volumes, *inputs)),
            **({"imagePullSecrets": pull} if pull else {}),
            **scheduling(self.gang, replica, self.settings),
        }

    def _main(self, replica: ReplicaStart, volumes: tuple[Volume, ...]) -> Json:
        places = [*volumes, *(laid.target for laid in self.laid)]
        code = next(({"workingDir": laid.target.path} for laid in self.laid if laid.name == CODE_CONTAINER), {})
        return {
            "name": REPLICA_CONTAINER,
            "image": self.gang.image,
            "command": command_line(replica.command),
            "env": own_variables(replica, self.common, self.settings),
            "envFrom": self.env_from,
            "resources": resources(replica, self.settings),
            "securityContext": container_security(),
            "volumeMounts": [volume.mount() for volume in places],
            **code,
        }

    def _preparing(self, replica: ReplicaStart) -> Json:
        return {
            "image": self.settings.platform_image,
            "resources": preparing_resources(replica),
            "securityContext": container_security(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
