"""The kinds of document that the platform serves: their names, and the HTTP collection each one lives in.

One table drives `apply`, `get` and `delete`. A kind is found by its YAML name (`InstanceType`), its collection's name
(`instance-types`) or the singular (`instance-type`), in any case.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from trainmaster.errors import InputError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind; `read_only` ones are reported by the platform and cannot be applied or deleted."""

    name: str
    plural: str
    path: str
    read_only: bool = False

    @property
    def singular(self) -> str:
        """How commands print it: `instance-type`."""
        return self.plural.removesuffix("s")

    @property
    def is_job(self) -> bool:
        """Jobs are submitted once with POST; everything else is put under its name as often as one likes."""
        return self.name == "TrainingJob"


TRAINING_JOB: Final = Kind("TrainingJob", "jobs", "/v1/jobs")
KINDS: Final = (
    TRAINING_JOB,
    Kind("Pool", "pools", "/v1/pools"),
    Kind("InstanceType", "instance-types", "/v1/instance-types"),
    Kind("Storage", "storages", "/v1/assets/storages"),
    Kind("Dataset", "datasets", "/v1/assets/datasets"),
    Kind("Model", "models", "/v1/assets/models"),
    Kind("Image", "images", "/v1/assets/images"),
    Kind("CodeSet", "code-sets", "/v1/assets/code-sets"),
    Kind("Secret", "secrets", "/v1/assets/secrets"),
    Kind("Project", "projects", "/v1/assets/projects"),
    Kind("User", "users", "/v1/auth/users"),
    Kind("Group", "groups", "/v1/auth/groups"),
    Kind("Rule", "rules", "/v1/rules"),
    Kind("Notification", "notifications", "/v1/notifications"),
    Kind("Cluster", "clusters", "/v1/clusters", read_only=True),
    Kind("Node", "nodes", "/v1/nodes", read_only=True),
    Kind("QueueEntry", "queue", "/v1/queue", read_only=True),
    Kind("Incident", "incidents", "/v1/incidents", read_only=True),
    Kind("PlatformIncident", "platform-incidents", "/v1/incidents/platform", read_only=True),
)
APPLICABLE: Final = tuple(kind for kind in KINDS if not kind.read_only)


def kind_of_document(name: object) -> Kind:
    """The kind that a document's `kind:` names, exactly as written; raises InputError with what would be accepted."""
    for kind in APPLICABLE:
        if kind.name == name:
            return kind
    names = [kind.name for kind in APPLICABLE]
    raise InputError(f"kind {name!r} is not one that can be applied; {_advice(str(name), names)}")


def kind_of_argument(text: str) -> Kind:
    """The kind that a command line means."""
    wanted = text.lower()
    for kind in KINDS:
        if wanted in (kind.name.lower(), kind.plural, kind.singular, kind.plural.replace("-", "")):
            return kind
    plurals = [kind.plural for kind in KINDS]
    raise InputError(f"there is no kind {text!r}; {_advice(wanted, plurals)}")


def _advice(text: str, accepted: list[str]) -> str:
    lowered = {name.lower(): name for name in accepted}
    close = difflib.get_close_matches(text.lower(), lowered, n=1)
    hint = f"did you mean {lowered[close[0]]}? " if close else ""
    return f"{hint}accepted are {', '.join(accepted)}"
