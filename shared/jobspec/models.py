"""The training job as users write it: one frozen model a section, with defaults, and what each key accepts.

The `description` of a field is the noun phrase that error messages end with ("give …"). Field types hold the limits of
a value by itself; what depends on several places stands in `shared.jobspec.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt

from shared.documents.fields import (
    AbsolutePath,
    Argument,
    Command,
    DnsLabel,
    Document,
    Duration,
    EnvName,
    GraceDuration,
    KeepDuration,
    Name,
    NamePrefix,
    PositiveDuration,
    RelativePath,
    Text,
    UploadDigest,
    check_dns_label,
    refuse,
    shown,
)
from shared.jobspec.reserved import is_reserved

API_VERSION: Final = "trainmaster/v1"
FIRST_CLUSTER: Final = "main"
DEFAULT_ROLE: Final = "worker"
TEMPLATES: Final = ("deepspeed", "colossalai")
ROLES_MAX: Final = 10
VARIABLES_MAX: Final = 20
PHASES_MAX: Final = 20
SECRETS_MAX: Final = 20
REPLICAS_MAX: Final = 10_000
MESSAGES_MAX: Final = 50
FRAGMENTS_MAX: Final = 10
FRAGMENT_MAX: Final = 1000

# Trees in which the system or the platform lays files of its own; a mount there would hide or break them.
RESERVED_TREES: Final = (
    *("/code", "/etc", "/proc", "/dev", "/sys", "/run", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot"),
    "/tmp",  # noqa: S108  # a name to refuse, not a place to write to
)

_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,199}", re.ASCII)
_A_NAME = 'a name of at most 128 characters, without / : * ? " < > | and white space'
_REPLICAS = f"an integer from 1 to {REPLICAS_MAX}"
_ON_OFF = "true or false"


def _not_reserved(name: str) -> str:
    if is_reserved(name):
        raise refuse("reserved-name", f"the platform sets {name} itself in every replica; leave it out or rename it")
    return name


def _mountable(path: str) -> str:
    tree = next((tree for tree in RESERVED_TREES if path == tree or path.startswith(tree + "/")), None)
    if path == "/" or tree:
        raise refuse(
            "mount-path-reserved",
            f"the system or the platform keeps {tree or '/'} for itself; mount elsewhere, such as below /mnt",
        )
    return path


def _succeed_when(rule: str) -> str:
    kind, _, role = rule.partition(":")
    if rule == "all":
        return rule
    if kind != "role" or not role:
        raise refuse("not-a-choice", f"{shown(rule)} is not among the choices; give 'all' or 'role:<name of a role>'")
    check_dns_label(role)
    return rule


def _revision(revision: str) -> str:
    bad = ".." in revision or "//" in revision or revision.endswith((".", "/", ".lock"))
    if bad or _REVISION.fullmatch(revision) is None:
        raise refuse("revision-invalid", f"{shown(revision)} is no revision; give a branch, a tag or a full commit id")
    return revision


def _bare_address(image: object) -> object:
    return {"source": "address", "ref": image} if isinstance(image, str) else image


VariableName = Annotated[EnvName, AfterValidator(_not_reserved)]
MountPath = Annotated[AbsolutePath, AfterValidator(_mountable)]
Replicas = Annotated[StrictInt, Field(ge=1, le=REPLICAS_MAX)]
SucceedWhen = Annotated[str, AfterValidator(_succeed_when)]
Revision = Annotated[str, AfterValidator(_revision)]
Fragment = Annotated[Text, Field(min_length=1, max_length=FRAGMENT_MAX)]
ExitCode = Annotated[StrictInt, Field(ge=1, le=255)]


class JobMetadata(Document):
    """What the job is called and grouped by; exactly one of `name` and `generateName` is given."""

    name: Name | None = Field(None, description=_A_NAME)
    generate_name: NamePrefix | None = Field(
        None, description="the beginning of a name, such as sweep-, which the platform completes"
    )
    project: Name = Field("default", description=_A_NAME)
    labels: tuple[Name, ...] = Field((), description=f"a list of labels, each {_A_NAME}")


class ImageChoice(Document):
    """An image by name from the catalog, or by its address in a registry."""

    source: Literal["platform", "custom", "shared", "address"] = Field(
        description="'platform', 'custom', 'shared' or 'address'"
    )
    ref: str = Field(description="the name of the image, or its address where the source is 'address'")


ImageField = Annotated[ImageChoice, BeforeValidator(_bare_address)]


class CodeChoice(Document):
    """Where /code comes from: exactly one of a code set, an upload, or files in the spec itself."""

    source: Name | None = Field(None, description=f"the name of a code set, {_A_NAME}")
    revision: Revision | None = Field(None, description="a branch, a tag or a full commit id, as text")
    upload: UploadDigest | None = Field(None, description="the digest of an upload (sha256:…)")
    inline: Mapping[RelativePath, Text] | None = Field(None, description="an object of file paths, each with its text")


class Mount(Document):
    """A storage, dataset or model, seen by every replica at a path."""

    type: Literal["storage", "dataset", "model"] = Field(description="'storage', 'dataset' or 'model'")
    source: Name = Field(description=f"the name of what to mount, {_A_NAME}")
    sub_path: RelativePath | None = Field(None, description="a path below the root of what is mounted")
    mount_path: MountPath = Field(
        description="an absolute path such as /mnt/data (it may be left out only where there is a single mount)"
    )
    read_only: StrictBool = Field(default=False, description=_ON_OFF)


class PoolChoice(Document):
    """The cluster's public pool, or a dedicated one by name."""

    type: Literal["public", "dedicated"] = Field("public", description="'public' or 'dedicated'")
    name: Name | None = Field(None, description=f"the name of the dedicated pool, {_A_NAME}")


class Role(Document):
    """Replicas that run the same command on the same kind of instance."""

    name: DnsLabel = Field(DEFAULT_ROLE, description="a role name of a-z, 0-9 and -, such as worker")
    replicas: Replicas = Field(description=_REPLICAS)
    pool: PoolChoice = Field(PoolChoice(), description="{type: public} or {type: dedicated, name: <pool>}")
    instance_type: Name = Field(description=f"the name of an instance type, {_A_NAME}")
    command: Command = Field(description="the start command, a text that /bin/bash -c runs")


class Tensorboard(Document):
    """Where user code writes its event files."""

    log_dir: AbsolutePath = Field(description="an absolute path on a mount of the job")


class Checkpoint(Document):
    """Where user code keeps its checkpoints."""

    dir: AbsolutePath = Field(description="an absolute path on a mount of the job")


class Diagnosis(Document):
    """Check of the placed nodes before user code runs."""

    enabled: StrictBool = Field(default=False, description=_ON_OFF)


class HangDetection(Document):
    """Watch for a job whose replicas are all silent."""

    enabled: StrictBool = Field(default=False, description=_ON_OFF)
    silence_s: PositiveDuration = Field(1800.0, alias="silence", description="a duration such as 30m")
    phases: Mapping[DnsLabel, PositiveDuration] = Field(
        {}, description=f"at most {PHASES_MAX} phases such as checkpoint, each with a duration such as 2h"
    )
    exit_silence_s: PositiveDuration | None = Field(
        None, alias="exitSilence", description="a duration such as 10m; left out, the shorter of silence and 10m"
    )


class FailureRetry(Document):
    """Which failures are worth a new attempt."""

    policy: Literal["OnFailure", "ExitCodeAndErrorMsg", "Advanced"] = Field(
        "OnFailure", description="'OnFailure', 'ExitCodeAndErrorMsg' or 'Advanced'"
    )
    exit_codes: tuple[ExitCode, ...] = Field((), description="a list of exit codes from 1 to 255")
    error_messages: tuple[tuple[Fragment, ...], ...] = Field(
        (), description="a list of messages, each a list of fragments that stand on one line"
    )


class RetryTriggers(Document):
    """What ends of an attempt lead to another."""

    failure: FailureRetry | None = Field(None, description="an object with a policy")
    diagnosis_failure: StrictBool = Field(default=False, description=_ON_OFF)
    hang: StrictBool = Field(default=False, description=_ON_OFF)


class Retry(Document):
    """New attempts after the first."""

    max_retries: StrictInt = Field(ge=0, le=100, description="an integer from 0 to 100")
    interval_s: Duration = Field(0.0, alias="interval", description="a duration such as 30s")
    on: RetryTriggers = Field(
        RetryTriggers(failure=FailureRetry()), description="an object of failure, diagnosisFailure and hang"
    )


class Topology(Document):
    """How close to each other the replicas are placed."""

    mode: Literal["soft", "hard"] = Field("soft", description="'soft' or 'hard'")
    level: Literal["leaf", "spine"] = Field("leaf", description="'leaf' or 'spine'")


class Completion(Document):
    """When the job has succeeded."""

    succeed_when: SucceedWhen = Field("all", description="'all' or 'role:<name of a role>'")


class TrainingSpec(Document):
    """What runs, where and how."""

    cluster: Name = Field(FIRST_CLUSTER, description=f"the name of a cluster, {_A_NAME}")
    framework: Literal["other", "deepspeed", "colossalai"] = Field(
        "other", description="'other', 'deepspeed' or 'colossalai'"
    )
    image: ImageField = Field(description="an image as {source: platform, ref: <name>}, or its address as text")
    code: CodeChoice | None = Field(None, description="an object with one of source, upload or inline")
    mounts: tuple[Mount, ...] = Field((), description="a list of mounts")
    env: Mapping[VariableName, Argument] = Field(
        {}, description=f"at most {VARIABLES_MAX} variables, each name with a text; put numbers and booleans in quotes"
    )
    secrets: Mapping[VariableName, Name] = Field(
        {}, description=f"at most {SECRETS_MAX} variables, each name with the name of a secret"
    )
    roles: tuple[Role, ...] = Field(description=f"a list of 1 to {ROLES_MAX} roles")
    tensorboard: Tensorboard | None = Field(None, description="an object with logDir")
    checkpoint: Checkpoint | None = Field(None, description="an object with dir")
    diagnosis: Diagnosis | None = Field(None, description="an object with enabled")
    hang_detection: HangDetection | None = Field(
        None, description="an object with enabled, silence, exitSilence and phases"
    )
    retry: Retry | None = Field(None, description="an object with maxRetries, interval and on")
    priority: StrictInt = Field(5, ge=1, le=9, description="an integer from 1 to 9")
    preemptible: StrictBool = Field(default=False, description=_ON_OFF)
    topology: Topology | None = Field(None, description="an object with mode and level")
    exclude_nodes: tuple[Name, ...] = Field((), description="a list of node names")
    completion: Completion = Field(Completion(), description="an object with succeedWhen")
    start_timeout_s: PositiveDuration = Field(1800.0, alias="startTimeout", description="a duration such as 30m")
    max_run_time_s: PositiveDuration | None = Field(None, alias="maxRunTime", description="a duration such as 48h")
    termination_grace_s: GraceDuration = Field(
        30.0, alias="terminationGrace", description="a duration of at most 1h, such as 30s"
    )
    ttl_after_finished_s: PositiveDuration | None = Field(
        None, alias="ttlAfterFinished", description="a duration such as 24h"
    )
    keep_for_s: KeepDuration | None = Field(None, alias="keepFor", description="a duration of at most 168h, such as 2h")


class JobSpec(Document):
    """The whole document: what `kind: TrainingJob` holds."""

    api_version: Literal["trainmaster/v1"] = Field(description=f"'{API_VERSION}'")
    kind: Literal["TrainingJob"] = Field(description="'TrainingJob'")
    metadata: JobMetadata = Field(description="an object with the name of the job")
    spec: TrainingSpec = Field(description="an object with image and roles, and what else the job needs")

    def document(self) -> dict[str, Any]:
        """The JSON document, with every default filled in."""
        return self.model_dump(mode="json", exclude_none=True)
