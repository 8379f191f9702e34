"""Writes JSON documents as YAML that `reader` reads back unchanged: keys in their order, long texts in blocks."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from trainmaster.manifests.scalars import is_plain_text

# Characters that other styles would lose: PyYAML takes some of them for line ends.
_NEEDS_ESCAPES: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper, which would leave text such as `1e5` unquoted, as YAML 1.1 sees no number in it."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if _NEEDS_ESCAPES.search(text):
        style: str | None = '"'
    elif "\n" in text:
        style = "|"
    else:
        style = None if is_plain_text(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_text(document: Any) -> str:
    """The document as YAML."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
