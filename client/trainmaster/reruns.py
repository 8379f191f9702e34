"""The document that submits a job once more: its spec as the platform has it, under a name of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from trainmaster.changes import Change, changed
from trainmaster.decoding import Document
from trainmaster.errors import InputError

# The platform's limit for the beginning of a name that it completes.
_PREFIX_MAX: Final = 123
_GROUPING: Final = ("project", "labels")


def rerun_document(job: Document, changes: Iterable[Change] = (), name: str | None = None) -> dict[str, Any]:
    """The document to submit; raises InputError where a change leads nowhere."""
    metadata = job["metadata"]
    given = {key: metadata[key] for key in _GROUPING if metadata.get(key)}
    document = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {**_naming(metadata, name), **given},
        "spec": job["spec"],
    }
    return changed(document, map(_checked, changes))


def _naming(metadata: Document, name: str | None) -> dict[str, str]:
    """A job that got its name from a prefix is joined by others of the prefix, so that names do not grow."""
    if name is not None:
        return {"name": name}
    return {"generateName": metadata.get("generateName") or f"{metadata['name'][: _PREFIX_MAX - 1]}-"}


def _checked(change: Change) -> Change:
    if change.path[0] not in ("spec", "metadata") or len(change.path) == 1:
        raise InputError(f"{change.written} cannot be set; paths begin with spec. or metadata., as in spec.priority=7")
    if change.path[:2] in (("metadata", "name"), ("metadata", "generateName")):
        raise InputError("the name is chosen with --name NAME; left out, the platform makes one of the job's own")
    return change
