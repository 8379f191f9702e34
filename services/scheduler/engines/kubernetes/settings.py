"""What an admin decides about a cluster and its pods: the variables `TRAINMASTER_KUBE_…`, see `docs/kubernetes.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from services.scheduler.engines.kubernetes.nodes import NodeReading
from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import (
    GPU_RESOURCE,
    Egress,
    PodUser,
    S3Volumes,
    Toleration,
    VolumeSettings,
)
from shared.kubernetes.namespaces import SHARED, Namespaces

_OF_IMAGE: Final = "image"
_ROOT: Final = "root"
_NONE: Final = "none"
_UID_MAX: Final = (1 << 31) - 1
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_PREFIX: Final = r"^([a-z0-9]([a-z0-9-]{0,30}))?$"
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_SECRET: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_RESOURCE: Final = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)


def _user(text: str) -> str:
    if text not in (_OF_IMAGE, _ROOT) and not (text.isascii() and text.isdecimal() and 0 < int(text) <= _UID_MAX):
        raise ValueError("give a user id from 1 up, or image (whoever that names, but root), or root")
    return text


def _networks(text: str) -> str:
    for network in _words(text):
        if network != _NONE:
            ip_network(network)
    return text


def _pairs(text: str) -> str:
    for pair in _words(text):
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise ValueError(f"{pair!r} is no pair such as name=value")
    return text


def _clusters(text: str) -> str:
    names = [cluster for cluster, _, _ in (pair.partition("=") for pair in _words(text))]
    if not all(_CLUSTER.fullmatch(name) for name in names) or len(set(names)) < len(names):
        raise ValueError("give each cluster once, with its context behind it: main=here,east=there")
    return text


def _resources(text: str) -> str:
    for _, resource in _named(_pairs(text)):
        if _RESOURCE.fullmatch(resource) is None:
            raise ValueError(f"{resource!r} is no name of a resource such as nvidia.com/gpu")
    return text


def _secret_names(text: str) -> str:
    if not all(_SECRET.fullmatch(name) for name in _words(text)):
        raise ValueError("give names of Secrets, with commas between")
    return text


def _taints(text: str) -> str:
    for each in _tolerations(text):
        if not each.key or each.effect not in _EFFECTS:
            raise ValueError("give taints as kubectl does: key=value:NoSchedule, key:NoExecute, or key")
    return text


def _absolute(text: str) -> str:
    for prefix in filter(None, text.split(":")):
        if not prefix.startswith("/") or prefix == "/" or ".." in prefix.split("/"):
            raise ValueError("give absolute directories of nodes, and not the whole of them, separated by colons")
    return text


def _texts(text: str) -> str:
    found = json.loads(text or "{}")
    if not (isinstance(found, dict) and all(isinstance(value, str) for value in found.values())):
        raise ValueError('give a JSON object of texts, such as {"bucketName": "{bucket}", "prefix": "{prefix}"}')
    return text


class KubernetesSettings(BaseModel):
    """Everything that is the same for all gangs."""

    model_config = ConfigDict(frozen=True)

    kube_context: str = Field(
        "", description="context of the kubeconfig; none: the service account of the pod, or the current context"
    )
    kube_contexts: Annotated[str, AfterValidator(_clusters)] = Field(
        "", description="several clusters, the first one first, each with its context: main=in-cluster,east=there,…"
    )
    kube_gpu_label: str = Field("nvidia.com/gpu.product", description="label of nodes with the model of their GPUs")
    kube_leaf_label: str = Field("", description="label of nodes with the leaf switch that they hang on")
    kube_spine_label: str = Field("", description="label of nodes with the spine switch above that")
    kube_node_lost_after_s: float = Field(
        300.0, ge=10, description="seconds without news of a node after which its replicas count as lost"
    )
    kube_sees_others: bool = Field(
        default=True, description="whether what pods of others hold is looked at, which needs rights in all namespaces"
    )
    kube_namespace: str = Field(SHARED, pattern=_NAMESPACE, description="namespace of all gangs")
    kube_namespace_prefix: str = Field(
        "", pattern=_PREFIX, description="given: each project has a namespace of its own, <prefix><project>"
    )
    kube_image: str = Field("", description="the platform's own image, which lays code in pods")
    kube_pull_secrets: Annotated[str, AfterValidator(_secret_names)] = Field(
        "", description="Secrets in the namespace of gangs by which pods with code pull that image: NAME,…"
    )
    kube_code_url: str = Field(
        "", pattern=r"^(https?://.+)?$", description="where pods reach the scheduler, for code of more than 900 KiB"
    )
    kube_run_as: Annotated[str, AfterValidator(_user)] = Field(
        "1000", description="user id of commands; image: whoever that names, but root; root: that too"
    )
    kube_shm_percent: int = Field(50, ge=1, le=100, description="how much of a replica's memory may be in /dev/shm")
    kube_egress: Annotated[str, AfterValidator(_networks)] = Field(
        "0.0.0.0/0,::/0", description="networks that gangs may open connections to; none: themselves and DNS alone"
    )
    kube_egress_except: Annotated[str, AfterValidator(_networks)] = Field(
        "169.254.0.0/16,fe80::/10", description="parts of these networks that they may not"
    )
    kube_gpu_resources: Annotated[str, AfterValidator(_resources)] = Field(
        "", description="names of resources by GPU model: MODEL=amd.com/gpu,…; all others are nvidia.com/gpu"
    )
    kube_tolerations: Annotated[str, AfterValidator(_taints)] = Field(
        "", description="taints that gangs bear, as kubectl writes them: key=value:NoSchedule,…"
    )
    kube_host_prefixes: Annotated[str, AfterValidator(_absolute)] = Field(
        "", description="directories of nodes that file:// storages may lie in, separated by colons; none: no file://"
    )
    kube_nfs: bool = Field(default=False, description="whether nfs:// may be mounted")
    kube_s3_claims: Annotated[str, AfterValidator(_pairs)] = Field(
        "", description="claims that stand for buckets: bucket=claim,…"
    )
    kube_s3_driver: str = Field("", description="CSI driver that makes volumes of all other buckets, inline")
    kube_s3_attributes: Annotated[str, AfterValidator(_texts)] = Field(
        "", description="its volume attributes as a JSON object of texts, with {bucket} and {prefix}"
    )

    @field_validator("kube_contexts")
    @classmethod
    def _is_all(cls, contexts: str, info: ValidationInfo) -> str:
        if contexts and info.data.get("kube_context"):
            raise ValueError("give the contexts of all clusters here, and leave kube_context out")
        return contexts

    def contexts(self, cluster: str) -> dict[str, str]:
        """The context of each cluster, the first one first; of the one with this name where none are listed."""
        listed = (pair.partition("=") for pair in _words(self.kube_contexts))
        return {name: context for name, _, context in listed} or {cluster: self.kube_context}

    def reading(self) -> NodeReading:
        """How nodes are to be read."""
        return NodeReading(
            gpu_resources=tuple(dict.fromkeys((GPU_RESOURCE, *dict(_named(self.kube_gpu_resources)).values()))),
            gpu_model_label=self.kube_gpu_label,
            leaf_label=self.kube_leaf_label,
            spine_label=self.kube_spine_label,
            tolerations=tuple(_tolerations(self.kube_tolerations)),
        )

    def objects(self, cluster: str) -> ObjectSettings:
        """The same for the objects of gangs in one cluster."""
        return ObjectSettings(
            namespaces=Namespaces(self.kube_namespace, self.kube_namespace_prefix or None),
            cluster=cluster,
            platform_image=self.kube_image,
            pull_secrets=tuple(_words(self.kube_pull_secrets)),
            code_url=self.kube_code_url,
            user=self._pod_user(),
            shm_percent=self.kube_shm_percent,
            egress=Egress(_chosen(self.kube_egress), _chosen(self.kube_egress_except)),
            gpu_resources=dict(_named(self.kube_gpu_resources)),
            tolerations=tuple(_tolerations(self.kube_tolerations)),
            volumes=self._volumes(),
        )

    def _pod_user(self) -> PodUser:
        if self.kube_run_as in (_OF_IMAGE, _ROOT):
            return PodUser(None, may_be_root=self.kube_run_as == _ROOT)
        return PodUser(int(self.kube_run_as))

    def _volumes(self) -> VolumeSettings:
        attributes = json.loads(self.kube_s3_attributes or "{}")
        return VolumeSettings(
            host_prefixes=tuple(prefix.rstrip("/") for prefix in self.kube_host_prefixes.split(":") if prefix),
            nfs=self.kube_nfs,
            s3=S3Volumes(dict(_named(self.kube_s3_claims)), self.kube_s3_driver, attributes),
        )


def _words(text: str) -> Iterator[str]:
    return (word.strip() for word in text.split(",") if word.strip())


def _chosen(text: str) -> tuple[str, ...]:
    return tuple(word for word in _words(text) if word != _NONE)


def _named(text: str) -> Iterator[tuple[str, str]]:
    for pair in _words(text):
        name, _, value = pair.rpartition("=")
        yield name, value


def _tolerations(text: str) -> Iterator[Toleration]:
    for taint in _words(text):
        told, _, effect = taint.partition(":")
        key, _, value = told.partition("=")
        yield Toleration(key, value, effect)
