"""Rules about what a job runs from: image and code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from pydantic import TypeAdapter

from shared.documents.fields import Name, shown
from shared.documents.parsing import Location, accepts, pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft

_IMAGE_ADDRESS: Final = re.compile(r"[\x21-\x7e]{1,512}", re.ASCII)
_NAME: Final = TypeAdapter(Name)
_CODE: Final = ("spec", "code")
_CODE_SOURCES: Final = ("source", "upload", "inline")


def is_image_address(text: str) -> bool:
    """Whether the text can be the address of an image: visible ASCII without spaces, at most 512 characters."""
    return _IMAGE_ADDRESS.fullmatch(text) is not None


def image_reference_fits_its_source(draft: Draft) -> Iterator[Violation]:
    """`ref` is an address where the source is one, and a name otherwise."""
    image = draft.raw("spec", "image")
    place: tuple[str, ...] = ("spec", "image") if isinstance(image, str) else ("spec", "image", "ref")
    source = "address" if isinstance(image, str) else draft.raw("spec", "image", "source")
    ref = draft.raw(*place)
    if not isinstance(ref, str):
        return
    if source == "address" and not is_image_address(ref):
        yield Violation(
            pointer(place),
            "image-address-invalid",
            f"{shown(ref)} is no image address; give one such as registry.example/team/image:tag, without white space",
        )
    if source != "address" and not accepts(_NAME, ref):
        yield Violation(
            pointer(place), "image-name-invalid", f"{shown(ref)} is no name of an image; names have no : or /"
        )


def code_has_one_source(draft: Draft) -> Iterator[Violation]:
    """/code is filled from one place."""
    code = draft.mapping(*_CODE)
    given = [key for key in _CODE_SOURCES if code.get(key) is not None]
    if isinstance(draft.raw(*_CODE), dict) and len(given) != 1:
        what = " and ".join(given) or "none"
        yield Violation(
            pointer(_CODE), "code-source", f"give exactly one of source, upload and inline; this has {what}"
        )
    if code.get("revision") is not None and "source" not in given:
        yield Violation(
            pointer((*_CODE, "revision")),
            "code-source",
            "a revision belongs to a code set; name it in source, or leave this out",
        )


def inline_code_has_files(draft: Draft) -> Iterator[Violation]:
    """Inline code is at least one file. Its size is bounded by that of the whole spec."""
    if draft.raw(*_CODE, "inline") == {}:
        yield Violation(
            pointer((*_CODE, "inline")), "too-few", "there is no file; give at least one path with its text"
        )


def path_collisions(paths: Collection[str], location: Location) -> Iterator[Violation]:
    """Violation for each path of a file that would lie below another one."""
    for path in paths:
        parents = path.split("/")[:-1]
        folders = ("/".join(parents[: depth + 1]) for depth in range(len(parents)))
        clash = next((folder for folder in folders if folder in paths), None)
        if clash is not None:
            yield Violation(
                pointer((*location, path)),
                "path-collision",
                f"{shown(clash)} is a file here, so nothing can lie below it; rename one of the two",
            )


def inline_files_do_not_collide(draft: Draft) -> Iterator[Violation]:
    """No path is a file and a folder at once."""
    return path_collisions(draft.mapping(*_CODE, "inline"), (*_CODE, "inline"))
