"""The places of a job that name things outside of it, each as far as it is right by itself.

Whoever looks these things up can do so although something else in the document is wrong, so that users hear of wrong
names together with all other mistakes. What is wrong within a part and has nothing to do with its names is put right
for this purpose: a role is looked up although its number of replicas is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from shared.documents.fields import Name
from shared.documents.parsing import ModelT, parse
from shared.jobspec.draft import Draft
from shared.jobspec.models import CodeChoice, ImageChoice, ImageField, Mount, Role, Topology

_NAME: Final = TypeAdapter(Name)
_FILLING_OF_MOUNT: Final = {"mountPath": "/mnt/data"}
_FILLING_OF_ROLE: Final = {"replicas": 1, "command": "true"}


class _Image(BaseModel):
    model_config = ConfigDict(extra="ignore")

    image: ImageField


@dataclass(frozen=True, slots=True)
class JobParts:
    """Parts of a document that can be looked up; mounts and roles by their index, secrets by variable."""

    project: str | None = None
    cluster: str | None = None
    image: ImageChoice | None = None
    code: CodeChoice | None = None
    mounts: Mapping[int, Mount] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[int, Role] = field(default_factory=dict)
    topology: Topology | None = None

    @classmethod
    def of(cls, draft: Draft) -> Self:
        """The parts of a document in its long form."""
        image = parse(_Image, draft.mapping("spec"))[0]
        project = draft.raw("metadata", "project")
        return cls(
            project=project if isinstance(project, str) else None,
            cluster=draft.get(_NAME, "spec", "cluster"),
            image=image.image if image else None,
            code=parse(CodeChoice, draft.raw("spec", "code"))[0],
            mounts=_each(draft, "mounts", Mount, _FILLING_OF_MOUNT),
            secrets={name: str(secret) for name, secret in _secrets(draft).items()},
            roles=_each(draft, "roles", Role, _FILLING_OF_ROLE),
            topology=parse(Topology, draft.raw("spec", "topology"))[0],
        )


def _secrets(draft: Draft) -> dict[str, Any]:
    names = draft.mapping("spec", "secrets")
    return {variable: name for variable in names if (name := draft.get(_NAME, "spec", "secrets", variable))}


def _each(draft: Draft, section: str, model: type[ModelT], filling: Mapping[str, object]) -> dict[int, ModelT]:
    read = {index: _read(draft.mapping("spec", section, index), model, filling) for index in _indices(draft, section)}
    return {index: part for index, part in read.items() if part is not None}


def _indices(draft: Draft, section: str) -> range:
    return range(draft.length("spec", section))


def _read(raw: dict[str, object], model: type[ModelT], filling: Mapping[str, object]) -> ModelT | None:
    """The part; None where a key is wrong that nothing can stand in for."""
    wrong = {violation.pointer.split("/")[1] for violation in parse(model, raw)[1] if violation.pointer}
    right = {key: value for key, value in raw.items() if key not in wrong}
    return parse(model, {**filling, **right})[0]
