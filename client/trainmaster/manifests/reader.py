"""Reads a YAML file into manifests: JSON documents that know where in the file each of their values stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from trainmaster.errors import ExitCode, InputError, TrainmasterError, Violation
from trainmaster.manifests.composer import MappingNode, compose
from trainmaster.manifests.constructor import Constructor, Place
from trainmaster.manifests.source import MAX_SOURCE_BYTES, Fault, ManifestError, Source, decoded


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file; `base` is the folder that relative paths in it start from."""

    document: dict[str, Any]
    source: Source
    places: Mapping[str, Place]
    base: Path

    def place(self, pointer: str) -> Place:
        """Where the value at a JSON pointer stands; for one that is not there, the nearest value around it."""
        while pointer and pointer not in self.places:
            pointer = pointer.rpartition("/")[0]
        return self.places[pointer]


class RefusedManifestError(TrainmasterError):
    """A manifest that is fine YAML and still not acceptable; each violation has its place in it."""

    exit_code = ExitCode.INVALID

    def __init__(self, manifest: Manifest, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(violation.message for violation in violations))
        self.manifest = manifest
        self.violations = violations


def read_file(path: str, standard_input: BinaryIO) -> tuple[Manifest, ...]:
    """The manifests in a file, or in standard input where the path is `-`."""
    if path == "-":
        return read(decoded("<stdin>", standard_input.read(MAX_SOURCE_BYTES + 1)), Path())
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return read(decoded(path, content), Path(path).parent)


def read(source: Source, base: Path) -> tuple[Manifest, ...]:
    """The manifests in a text; raises ManifestError with every fault of all documents."""
    manifests: list[Manifest] = []
    faults: list[Fault] = []
    for root in compose(source):
        if not isinstance(root, MappingNode):
            faults.append(Fault(root.span, "a document must be a mapping with apiVersion, kind, metadata and spec"))
            continue
        constructor = Constructor(source)
        manifests.append(Manifest(constructor.construct(root), source, constructor.places, base))
        faults += constructor.faults
    if faults:
        raise ManifestError(source, tuple(faults))
    if not manifests:
        raise InputError(f"{source.name} holds no document")
    return tuple(manifests)
