"""A model for each kind of catalog document, as users write it and as the bucket keeps it.

A document is `apiVersion`, `kind`, `metadata`, `spec`. What the platform fills in (owner, times, sequence, `status`) is
accepted in what users send and not looked at, so that a document that was read can be applied again. The class
variables of a kind say how it is called in keys of the bucket and messages (`SINGULAR`) and in ids (`PREFIX`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AwareDatetime, Field, JsonValue, PlainSerializer, StrictBool, StrictInt

from shared.catalog.diagnosis import DiagnosisProfile
from shared.catalog.fields import (
    PASSWORD_MAX,
    PASSWORD_MIN,
    Cpu,
    DataUri,
    DirectoryUri,
    GitUrl,
    Memory,
    Password,
    Price,
    SecretValue,
)
from shared.clock import rfc3339
from shared.documents.fields import Argument, Document, Duration, Name, RelativePath, Text, UploadDigest
from shared.ids import hashed_id
from shared.jobspec.models import API_VERSION, FIRST_CLUSTER

Time = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str)]
USER_ID_MAX: Final = (1 << 31) - 1
Visibility = Literal["private", "public"]

_A_NAME = 'a name of at most 128 characters, without / : * ? " < > | and white space'
_NAMES_OF_USERS = "a list of user names"
_NAMES_OF_GROUPS = "a list of group names"
_ON_OFF = "true or false"
_FILLED_IN = "nothing; the platform fills this in"
_AN_AMOUNT = "an integer from 0 to 10000000"

_A_USER_ID = f"an integer from 1 to {USER_ID_MAX}"

UserId = Annotated[StrictInt, Field(ge=1, le=USER_ID_MAX)]
Amount = Annotated[StrictInt, Field(ge=0, le=10_000_000)]


class Metadata(Document):
    """What the document is called; the rest is filled in by the platform."""

    name: Name = Field(description=_A_NAME)
    id: str | None = Field(None, description=_FILLED_IN)
    owner: Name | None = Field(None, description=_FILLED_IN)
    created_at: Time | None = Field(None, description=_FILLED_IN)
    updated_at: Time | None = Field(None, description=_FILLED_IN)
    sequence: int | None = Field(None, description=_FILLED_IN)


class Members(Document):
    """Users and groups by name."""

    users: tuple[Name, ...] = Field((), description=_NAMES_OF_USERS)
    groups: tuple[Name, ...] = Field((), description=_NAMES_OF_GROUPS)


class Access(Members):
    """Who may use an asset beside its owner and the admins."""

    public: StrictBool = Field(default=False, description=_ON_OFF)


class CatalogDocument(Document):
    """Base of all kinds."""

    SINGULAR: ClassVar[str]
    PREFIX: ClassVar[str]

    api_version: Literal["trainmaster/v1"] = Field(description=f"'{API_VERSION}'")
    metadata: Metadata = Field(description="an object with the name")
    spec: Document
    status: JsonValue = Field(None, description=_FILLED_IN)

    @property
    def name(self) -> str:
        """Name that the users gave it."""
        return self.metadata.name

    @property
    def owner(self) -> str | None:
        """Name of the user who made it, where the kind has owners."""
        return self.metadata.owner

    @property
    def id(self) -> str:
        """Id that the name always means."""
        return self.id_of(self.name)

    @classmethod
    def plural(cls) -> str:
        """How the kind is called in paths."""
        return f"{cls.SINGULAR}s"

    @classmethod
    def id_of(cls, name: str) -> str:
        """Id of the document of this kind with this name."""
        return hashed_id(cls.PREFIX, name)

    @classmethod
    def key_of(cls, name: str) -> str:
        """Key of the bucket under which the document with this name is."""
        return f"{cls.SINGULAR}.{cls.id_of(name)}"

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return self.model_dump(mode="json", exclude_none=True)


# --- where jobs run --------------------------------------------------------------------------------------------------


class NodeShape(Document):
    """How large some of a cluster's nodes are: so many of this size in these pools; memory is rounded up."""

    pools: tuple[Name, ...] = Field(description="a list of pool names")
    nodes: StrictInt = Field(description="how many there are")
    cpu_millis: StrictInt = Field(description="millicores of one")
    memory_bytes: StrictInt = Field(description="bytes of one")
    gpus: Mapping[Text, StrictInt] = Field({}, description="an object of GPU models, each with its number")


class ClusterSpec(Document):
    """What the engine of a cluster can do, and what sizes it has; no schemes, prefixes, shapes: it does not say."""

    mounts: StrictBool = Field(default=True, description=_ON_OFF)
    mounts_hint: Text = Field("", description="a sentence that says what would make mounts possible")
    engine: Literal["local", "kubernetes"] = Field("local", description="'local' or 'kubernetes'")
    schemes: tuple[Text, ...] = Field((), description="a list of schemes that can be mounted, such as file and pvc")
    file_prefixes: tuple[Text, ...] = Field((), description="a list of directories of nodes that file:// may lie in")
    shapes: tuple[NodeShape, ...] = Field((), description="a list of node shapes")
    first: StrictBool = Field(default=False, description=_ON_OFF)
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

    enabled: StrictBool = Field(default=False, description=_ON_OFF)
    protected_run_time_s: Duration = Field(600.0, alias="protectedRunTime", description="a duration such as 10m")


class PoolSpec(Document):
    """Whose nodes these are, how its queue works, and who binds replicas to nodes where replicas are pods."""

    cluster: Name = Field(FIRST_CLUSTER, description=_A_NAME)
    type: Literal["public", "dedicated"] = Field("public", description="'public' or 'dedicated'")
    nodes: NodeSelector = Field(NodeSelector(), description="an object with names or labels")
    members: Members = Field(Members(), description="an object with users and groups")
    queue_policy: Literal["backfill", "fifo"] = Field("backfill", description="'backfill' or 'fifo'")
    binding: Literal["scheduler", "kubernetes"] = Field("scheduler", description="'scheduler' or 'kubernetes'")
    gang_scheduler: Literal["trainmaster", "volcano"] = Field("trainmaster", description="'trainmaster' or 'volcano'")
    queue: Text = Field("", description="the name of a queue of Volcano")
    run_as_user: UserId | None = Field(None, description=_A_USER_ID)
    preemption: PoolPreemption | None = Field(None, description="an object with enabled and protectedRunTime")


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


# --- what jobs use ---------------------------------------------------------------------------------------------------


class DataSpec(Document):
    """Where data is and who may use it."""

    uri: DataUri = Field(
        description="a URI such as file:///data/mnist, s3://bucket/mnist, pvc://claim/mnist or nfs://server/mnist"
    )
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class Storage(CatalogDocument):
    """A file store with a root; jobs mount paths below it."""

    SINGULAR = "storage"
    PREFIX = "s"

    kind: Literal["Storage"] = Field(description="'Storage'")
    spec: DataSpec = Field(description="an object with uri and access")


class Dataset(CatalogDocument):
    """A name for data to train on."""

    SINGULAR = "dataset"
    PREFIX = "d"

    kind: Literal["Dataset"] = Field(description="'Dataset'")
    spec: DataSpec = Field(description="an object with uri and access")


class Model(CatalogDocument):
    """A name for a trained model."""

    SINGULAR = "model"
    PREFIX = "m"

    kind: Literal["Model"] = Field(description="'Model'")
    spec: DataSpec = Field(description="an object with uri and access")


class ImageSpec(Document):
    """An image in a registry."""

    type: Literal["platform", "custom"] = Field("custom", description="'platform' or 'custom'")
    address: Argument = Field(description="an address such as registry.example/team/image:tag")
    pull_secret: Name | None = Field(None, description="the name of a secret with a .dockerconfigjson")
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class Image(CatalogDocument):
    """A name for an image: the platform's own, or a user's."""

    SINGULAR = "image"
    PREFIX = "i"

    kind: Literal["Image"] = Field(description="'Image'")
    spec: ImageSpec = Field(description="an object with type, address and access")


class GitRepository(Document):
    """Where a repository is, and what opens it."""

    url: GitUrl = Field(description="a URL such as https://git.example/team/code.git")
    secret: Name | None = Field(None, description="the name of a secret with the password or token")
    username: Name | None = Field(None, description="the user that the password or token belongs to")


class CodeSetSpec(Document):
    """Code in one of the ways that there are."""

    upload: UploadDigest | None = Field(None, description="the digest of an upload (sha256:…)")
    directory: DirectoryUri | None = Field(None, description="a URI such as file:///data/code")
    inline: Mapping[RelativePath, Text] | None = Field(None, description="an object of file paths, each with its text")
    git: GitRepository | None = Field(None, description="an object with url, and secret where one is needed")
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class CodeSet(CatalogDocument):
    """A name for code that jobs find at /code."""

    SINGULAR = "code-set"
    PREFIX = "cs"

    kind: Literal["CodeSet"] = Field(description="'CodeSet'")
    spec: CodeSetSpec = Field(description="an object with one of upload, directory, inline and git")


class SecretSpec(Document):
    """Who may use it. The value is written here and never kept in the catalog."""

    value: SecretValue | None = Field(None, repr=False, description="a text, such as a token")
    access: Members = Field(Members(), description="an object with users and groups")
    description: Text = Field("", description="a text")


class Secret(CatalogDocument):
    """A name for a value that nobody can read back and that jobs find in their environment."""

    SINGULAR = "secret"
    PREFIX = "sec"

    kind: Literal["Secret"] = Field(description="'Secret'")
    spec: SecretSpec = Field(SecretSpec(), description="an object with value and access")


# --- who -------------------------------------------------------------------------------------------------------------


class Quotas(Document):
    """How much the jobs of a project may have at one time; what is left out has no limit."""

    running_replicas: Amount | None = Field(None, description=_AN_AMOUNT)
    gpus: Amount | None = Field(None, description=_AN_AMOUNT)
    queued_jobs: Amount | None = Field(None, description=_AN_AMOUNT)


class ProjectSpec(Document):
    """Who works in it, and how much they may have."""

    members: Members = Field(Members(), description="an object with users and groups")
    quotas: Quotas | None = Field(None, description="an object with runningReplicas, gpus and queuedJobs")
    pull_secret: Name | None = Field(None, description="the name of a secret with a .dockerconfigjson")
    description: Text = Field("", description="a text")


class Project(CatalogDocument):
    """What jobs are grouped and billed by; its members see each other's jobs in it."""

    SINGULAR = "project"
    PREFIX = "pr"

    kind: Literal["Project"] = Field(description="'Project'")
    spec: ProjectSpec = Field(ProjectSpec(), description="an object with members and quotas")


class UserSpec(Document):
    """What a user may do. The password is written here and never kept in the catalog."""

    admin: StrictBool = Field(default=False, description=_ON_OFF)
    disabled: StrictBool = Field(default=False, description=_ON_OFF)
    email: Text = Field("", description="a text")
    password: Password | None = Field(None, description=f"a password of {PASSWORD_MIN} to {PASSWORD_MAX} characters")


class User(CatalogDocument):
    """Somebody who may log in."""

    SINGULAR = "user"
    PREFIX = "u"

    kind: Literal["User"] = Field(description="'User'")
    spec: UserSpec = Field(UserSpec(), description="an object with password, admin and disabled")


class GroupSpec(Document):
    """Who is in it."""

    members: tuple[Name, ...] = Field((), description=_NAMES_OF_USERS)


class Group(CatalogDocument):
    """A name for several users."""

    SINGULAR = "group"
    PREFIX = "g"

    kind: Literal["Group"] = Field(description="'Group'")
    spec: GroupSpec = Field(GroupSpec(), description="an object with members")


KINDS: Final[tuple[type[CatalogDocument], ...]] = (
    Cluster,
    Pool,
    InstanceType,
    Storage,
    Dataset,
    Model,
    Image,
    CodeSet,
    Secret,
    Project,
    User,
    Group,
)
