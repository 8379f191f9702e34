"""What an admin decides about the objects of gangs: all that is the same for every gang of a cluster.

The defaults are the safe ones: an ordinary user id, no directories of nodes, no NFS, and a network in which a gang
reaches itself and the world outside but nobody reaches the gang.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from services.scheduler.ports.gangs import ReplicaStart
from shared.kubernetes.namespaces import Namespaces

GPU_RESOURCE: Final = "nvidia.com/gpu"
ORDINARY_USER: Final = 1000
_LINK_LOCAL: Final = ("169.254.0.0/16", "fe80::/10")


@dataclass(frozen=True, slots=True)
class PodUser:
    """As whom commands run: a user id, or, with None, whoever the image names, who may be root only if that is said."""

    uid: int | None = ORDINARY_USER
    may_be_root: bool = False


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that pods bear; without a value, whatever value it has."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Egress:
    """Where gangs may open connections to beside themselves and DNS: networks, less those that are taken out."""

    networks: tuple[str, ...] = ("0.0.0.0/0", "::/0")
    excepted: tuple[str, ...] = _LINK_LOCAL


@dataclass(frozen=True, slots=True)
class S3Volumes:
    """How `s3://` becomes a volume: a bucket by the claim that stands for it, all others inline by a CSI driver.

    In the texts of `attributes` the words {bucket} and {prefix} are replaced; where none has {prefix}, the volume is
    taken to be the whole bucket.
    """

    claims: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """Which data gangs may mount."""

    host_prefixes: tuple[str, ...] = ()
    nfs: bool = False
    s3: S3Volumes = S3Volumes()

    @property
    def schemes(self) -> tuple[str, ...]:
        """Schemes of URIs that can be mounted."""
        s3 = bool(self.s3.driver or self.s3.claims)
        offered = {"file": bool(self.host_prefixes), "nfs": self.nfs, "pvc": True, "s3": s3}
        return tuple(scheme for scheme, can_be in offered.items() if can_be)


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """Everything about a cluster's gangs that is not the gang's own.

    `cluster` is the name by which the platform calls this one, `platform_image` the image that lays code,
    `pull_secrets` are what opens its registry, and `code_url` is where it gets code that does not fit into a ConfigMap.
    """

    namespaces: Namespaces = field(default_factory=Namespaces)
    cluster: str = "trainmaster"
    platform_image: str = ""
    pull_secrets: tuple[str, ...] = ()
    code_url: str = ""
    user: PodUser = PodUser()
    shm_percent: int = 50
    egress: Egress = Egress()
    gpu_resources: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    volumes: VolumeSettings = VolumeSettings()

    def gpu_resource(self, model: str) -> str:
        """Name under which nodes offer GPUs of this model."""
        return self.gpu_resources.get(model, GPU_RESOURCE)

    def user_of(self, replica: ReplicaStart) -> PodUser:
        """As whom the replica's command runs: the pool's user, else that of the cluster."""
        uid = replica.pool.run_as_user
        return self.user if uid is None else PodUser(uid)
