"""In which namespace a project's gangs live: one for all, or one a project, named after it.

A project's name is free text, a namespace is a DNS label. A name that is one already is kept; of any other what fits
is kept with a hash behind it, so that two projects never share a namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from shared.ids import DNS_LABEL_MAX, digest

SHARED: Final = "trainmaster-jobs"
_HASH_CHARS: Final = 10
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)
_UNFIT: Final = re.compile(r"[^a-z0-9]+", re.ASCII)
_HASHED: Final = re.compile(r"(.*-)?[0-9a-f]{10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """`shared` for all projects, or, where a prefix is given, `<prefix><project>` for each."""

    shared: str = SHARED
    prefix: str | None = None

    def of(self, project: str) -> str:
        """The namespace of the project's gangs."""
        return self.shared if self.prefix is None else self.prefix + fitting(project, DNS_LABEL_MAX - len(self.prefix))

    def have(self, namespace: str) -> bool:
        """Whether gangs may be there."""
        return namespace == self.shared if self.prefix is None else namespace.startswith(self.prefix)


ALL_NAMESPACES: Final = Namespaces(prefix="")


def fitting(text: str, most_chars: int) -> str:
    """The text where it is a DNS label of at most so many characters, else one that no other text gives."""
    if len(text) <= most_chars and _LABEL.fullmatch(text) and not _HASHED.fullmatch(text):
        return text
    hashed = digest(text)[:_HASH_CHARS]
    kept = _UNFIT.sub("-", text.lower()).strip("-")[: most_chars - _HASH_CHARS - 1].strip("-")
    return f"{kept}-{hashed}" if kept else hashed
