"""Replaces the folders that a document asks to upload by the digests of what was uploaded.

A training job names one at `spec.code.upload`, a code set at `spec.upload`. A value that is a digest already is left
alone, so that a document read back from the platform can be applied again.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_PARENT_OF_UPLOAD: Final = {"TrainingJob": ("spec", "code"), "CodeSet": ("spec",)}


def with_uploads(document: Mapping[str, Any], upload: Callable[[Path], str]) -> dict[str, Any]:
    """The document as it is sent: `upload` gives the digest of a folder. The given document is not changed."""
    sent: dict[str, Any] = dict(document)
    folder = upload_folder(document)
    if folder is not None:
        sent = copy.deepcopy(sent)
        _parent(sent)["upload"] = upload(folder)
    return sent


def upload_folder(document: Mapping[str, Any]) -> Path | None:
    """The folder that a document asks to upload; None where it asks for none, or the platform has it already."""
    value = _parent(document).get("upload")
    return Path(value) if isinstance(value, str) and value and not _DIGEST.fullmatch(value) else None


def _parent(document: Mapping[str, Any]) -> Any:
    parent: Any = document
    for key in _PARENT_OF_UPLOAD.get(str(document.get("kind")), ()):
        parent = parent.get(key) if isinstance(parent, Mapping) else None
    return parent if isinstance(parent, Mapping) and parent is not document else {}
