"""Rules about the framework templates: DeepSpeed and Colossal-AI jobs have one master, and workers beside it.

The master is the replica with rank 0, and by default the job has succeeded when it has (see `settling`). All other
roles are its workers, whatever they are called; a master alone is a job on one node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import TypeAdapter

from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import TEMPLATES, MountPath, Replicas
from shared.jobspec.reserved import DEEPSPEED_HOSTFILE, MASTER_ROLE
from shared.jobspec.rules.roles import role_names

_ROLES: Final = ("spec", "roles")
_REPLICAS: Final = TypeAdapter(Replicas)
_MOUNT_PATH: Final = TypeAdapter(MountPath)


def a_template_has_one_master(draft: Draft) -> Iterator[Violation]:
    """A job of a template has a role `master` with exactly one replica."""
    framework = draft.raw("spec", "framework")
    names = dict(role_names(draft))
    if framework not in TEMPLATES or not names:
        return
    index = next((index for index, name in names.items() if name == MASTER_ROLE), None)
    if index is None:
        there = ", ".join(map(shown, names.values()))
        yield Violation(
            pointer(_ROLES),
            "no-master",
            f"a {framework} job has one role called {MASTER_ROLE!r} and any others as its workers; "
            f"the roles here are {there}: rename one, or give framework: other",
        )
        return
    replicas = draft.get(_REPLICAS, *_ROLES, index, "replicas")
    if replicas is not None and replicas != 1:
        yield Violation(
            pointer((*_ROLES, index, "replicas")),
            "one-master",
            f"the master of a {framework} job is a single replica, and this asks for {replicas}; "
            "give 1, and the others to a role such as worker",
        )


def the_hostfile_has_its_place(draft: Draft) -> Iterator[Violation]:
    """No mount of a DeepSpeed job stands where its launcher looks for the hosts."""
    if draft.raw("spec", "framework") != "deepspeed":
        return
    for index in range(draft.length("spec", "mounts")):
        place = ("spec", "mounts", index, "mountPath")
        path = draft.get(_MOUNT_PATH, *place)
        if path is not None and f"{DEEPSPEED_HOSTFILE}/".startswith(f"{path}/"):
            sentence = f"deepspeed finds its hosts in {DEEPSPEED_HOSTFILE}, which a mount at {shown(path)} would hide"
            yield Violation(pointer(place), "mount-path-reserved", f"{sentence}; mount elsewhere, such as below /mnt")
