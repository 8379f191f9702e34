"""Kinds that say where jobs run: clusters, pools of their nodes, and sizes of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, StrictInt

from shared.catalog.base import A_NAME, ON_OFF, CatalogDocument, Members
from shared.catalog.diagnosis import DiagnosisProfile
from shared.catalog.fields import Cpu, Memory, Price
from shared.documents.fields import Document, Duration, Name, Text
from shared.jobspec.models import FIRST_CLUSTER

USER_ID_MAX: Final = (1 << 31) - 1
_A_USER_ID = f"an integer from 1 to {USER_ID_MAX}"

UserId = Annotated[StrictInt, Field(ge=1, le=USER_ID_MAX)]


class NodeShape(Document):
    """How large some of a cluster's nodes are: so many of this size in these pools; memory is rounded up."""

    pools: tuple[Name, ...] = Field(description="a list of pool names")
    nodes: StrictInt = Field(description="how many there are")
    cpu_millis: StrictInt = Field(description="millicores of one")
    memory_bytes: StrictInt = Field(description="bytes of one")
    gpus: Mapping[Text, StrictInt] = Field({}, description="an object of GPU models, each with its number")
    pods: StrictInt | None = Field(None, description="replicas that one takes at most, whatever their size")


class NodeDomain(Document):
    """What some leaves or spines have: so many nodes of each shape, by its place in the list of shapes."""

    level: Literal["leaf", "spine"] = Field(description="'leaf' or 'spine'")
    nodes: Mapping[Text, StrictInt] = Field(description="an object of places in shapes, each with a number of nodes")


class ClusterSpec(Document):
    """What the engine of a cluster can do, and what sizes it has.

    No schemes, prefixes, shapes or domains: it does not say.
    """

    mounts: StrictBool = Field(default=True, description=ON_OFF)
    mounts_hint: Text = Field("", description="a sentence that says what would make mounts possible")
    engine: Literal["local", "kubernetes"] = Field("local", description="'local' or 'kubernetes'")
    schemes: tuple[Text, ...] = Field((), description="a list of schemes that can be mounted, such as file and pvc")
    file_prefixes: tuple[Text, ...] = Field((), description="a list of directories of nodes that file:// may lie in")
    volcano: StrictBool = Field(default=True, description=ON_OFF)
    volcano_hint: Text = Field("", description="a sentence that says what would make Volcano possible")
    shapes: tuple[NodeShape, ...] = Field((), description="a list of node shapes")
    domains: tuple[NodeDomain, ...] = Field((), description="a list of what single leaves and spines have")
    first: StrictBool = Field(default=False, description=ON_OFF)
    """Whether jobs that name no cluster get this one."""


class Cluster(CatalogDocument):
    """A place with nodes and one engine; written by the scheduler, not by users."""

    SINGULAR = "cluster"
    PREFIX = "c"

    kind: Literal["Cluster"] = Field(description="'Cluster'")
    spec: ClusterSpec = Field(ClusterSpec(), description="an object with mounts")


class NodeSelector(Document):
    """The nodes of a pool: those named, and those that have every label; all nodes where nothing is given."""

    names: tuple[Name, ...] = Field((), description="a list of node names")
    labels: Mapping[Text, Text] = Field({}, description="an object of labels, each with its text")


class PoolPreemption(Document):
    """Whether jobs that allow it may be stopped for others of higher priority, and for how long they are safe."""

    enabled: StrictBool = Field(default=False, description=ON_OFF)
    protected_run_time_s: Duration = Field(600.0, alias="protectedRunTime", description="a duration such as 10m")


class PoolSpec(Document):
    """Whose nodes these are, how its queue works, and who binds replicas to nodes where replicas are pods."""

    cluster: Name = Field(FIRST_CLUSTER, description=A_NAME)
    type: Literal["public", "dedicated"] = Field("public", description="'public' or 'dedicated'")
    nodes: NodeSelector = Field(NodeSelector(), description="an object with names or labels")
    members: Members = Field(Members(), description="an object with users and groups")
    queue_policy: Literal["backfill", "fifo"] = Field("backfill", description="'backfill' or 'fifo'")
    binding: Literal["scheduler", "kubernetes"] = Field("scheduler", description="'scheduler' or 'kubernetes'")
    gang_scheduler: Literal["trainmaster", "volcano"] = Field("trainmaster", description="'trainmaster' or 'volcano'")
    queue: Text = Field("", description="the name of a queue of Volcano")
    run_as_user: UserId | None = Field(None, description=_A_USER_ID)
    preemption: PoolPreemption | None = Field(None, description="an object with enabled and protectedRunTime")

    @property
    def chooser(self) -> Literal["Trainmaster", "Kubernetes", "Volcano"]:
        """Who chooses the nodes of what runs in the pool."""
        if self.gang_scheduler == "volcano":
            return "Volcano"
        return "Kubernetes" if self.binding == "kubernetes" else "Trainmaster"


class Pool(CatalogDocument):
    """Nodes that are used together."""

    SINGULAR = "pool"
    PREFIX = "p"

    kind: Literal["Pool"] = Field(description="'Pool'")
    spec: PoolSpec = Field(PoolSpec(), description="an object with type, nodes, members, queuePolicy and preemption")


class Gpu(Document):
    """GPUs of an instance."""

    model: Text | None = Field(None, description="the model as the driver names it, or nothing for any")
    count: StrictInt = Field(ge=1, le=64, description="an integer from 1 to 64")


class InstanceTypeSpec(Document):
    """What one replica gets, where, and for how much."""

    cpu: Cpu = Field(description="cores as in 2 or 0.5, or millicores as in 500m")
    memory: Memory = Field(description="an amount such as 512Mi or 4Gi")
    gpu: Gpu | None = Field(None, description="an object with count, and model where it matters")
    pools: tuple[Name, ...] = Field((), description="a list of pool names")
    price_per_hour: Price | None = Field(None, description='an amount of the currency such as "1.25"')
    diagnosis: DiagnosisProfile | None = Field(None, description="an object with stages, floors and messages")


class InstanceType(CatalogDocument):
    """A size of replica that pools offer."""

    SINGULAR = "instance-type"
    PREFIX = "it"

    kind: Literal["InstanceType"] = Field(description="'InstanceType'")
    spec: InstanceTypeSpec = Field(description="an object with cpu, memory and pools")
