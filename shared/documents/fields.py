"""Field types of the documents that users write, each with its limits and the sentence that explains them.

A type is `Annotated[...]` with a validator that raises `refuse(code, sentence)`; code and sentence reach the user as
they stand. Durations are seconds in Python and Go-style text in JSON: a field `start_timeout_s` reads and prints `30m`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Final, LiteralString

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from shared.ids import DNS_LABEL_MAX
from shared.units import KIB, format_duration, parse_duration_s

NAME_MAX: Final = 128
GENERATED_CHARS: Final = 5
PATH_MAX: Final = 1024
PATH_PART_MAX_BYTES: Final = 255
# Linux refuses to start a process with one argument or variable longer than this, terminating zero included.
ARGUMENT_MAX_BYTES: Final = 128 * KIB

_NAME_FORBIDDEN: Final = frozenset('/:*?"<>|')
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d")  # parts of ordinary words in some scripts, and of emoji
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class Document(BaseModel):
    """Base of everything users write: camelCase in JSON, no unknown keys, unchangeable once read."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        serialize_by_alias=True,
    )


def refuse(code: LiteralString, sentence: str) -> PydanticCustomError:
    """Error that a validator raises: a stable code, and what is wrong together with what would be accepted."""
    return PydanticCustomError(code, "{sentence}", {"sentence": sentence})


def shown(text: str, limit: int = 40) -> str:
    """The text in quotes for an error message, cut where it is long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def check_name(name: str) -> str:
    """A human name: any script, at most 128 characters, visible, none of those that paths and shells give a meaning."""
    if not name:
        raise refuse("name-empty", f"a name has 1 to {NAME_MAX} characters; this one has none")
    if len(name) > NAME_MAX:
        raise refuse("name-too-long", f"a name has at most {NAME_MAX} characters; this one has {len(name)}")
    if name in {".", ".."}:
        raise refuse("name-not-allowed", f"{name!r} cannot be told from a folder in a path; add another character")
    bad = next((char for char in name if char in _NAME_FORBIDDEN or _is_invisible(char)), None)
    if bad is not None:
        raise refuse(
            "name-character",
            f"{shown(name)} has {_called(bad)}; a name may hold any character but "
            '/ : * ? " < > | and white space or other invisible ones',
        )
    return name


def check_name_prefix(prefix: str) -> str:
    """What a name begins with that the platform completes."""
    longest = NAME_MAX - GENERATED_CHARS
    if len(prefix) > longest:
        raise refuse(
            "name-too-long",
            f"a prefix has at most {longest} characters, as {GENERATED_CHARS} follow; this one has {len(prefix)}",
        )
    if prefix in {".", ".."}:
        return prefix  # with what follows it is no folder
    return check_name(prefix)


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE and char not in _JOINERS


def _called(char: str) -> str:
    if char == " ":
        return "a space"
    return f"the invisible character U+{ord(char):04X}" if _is_invisible(char) else f"the character {char}"


def check_dns_label(label: str) -> str:
    """A lower-case DNS label, as role names must be because host names are made of them."""
    if len(label) > DNS_LABEL_MAX or _DNS_LABEL.fullmatch(label) is None:
        raise refuse(
            "not-a-dns-label",
            f"{shown(label)} cannot be part of a host name; use at most {DNS_LABEL_MAX} of a-z, 0-9 and -, "
            "with a letter or digit at both ends",
        )
    return label


def check_env_name(name: str) -> str:
    """Name of an environment variable as every shell takes it."""
    if _ENV_NAME.fullmatch(name) is None:
        raise refuse(
            "env-name-invalid",
            f"{shown(name)} is no variable name; use letters, digits and _, and no digit first",
        )
    return name


def check_argument(text: str) -> str:
    """Text that the kernel takes as one argument: no NUL, and short enough to start a process with."""
    check_text(text)
    size_bytes = len(text.encode())
    if size_bytes >= ARGUMENT_MAX_BYTES:
        raise refuse(
            "argument-too-long",
            f"this has {size_bytes} bytes; Linux starts no process with an argument of {ARGUMENT_MAX_BYTES} bytes "
            "or more: put long text into a file of `code`",
        )
    return text


def check_text(text: str) -> str:
    """Text without NUL characters, which end a string for the kernel."""
    if "\0" in text:
        raise refuse("nul-character", f"{shown(text)} has a NUL character; leave it out")
    return text


def check_command(command: str) -> str:
    """A start command: something to run."""
    if not command.strip():
        raise refuse("command-empty", "the start command is empty; give what /bin/bash -c shall run")
    return check_argument(command)


def check_absolute_path(path: str) -> str:
    """An absolute path in its shortest spelling, so that the same place is always the same text."""
    if not path.startswith("/"):
        raise refuse("path-not-absolute", f"{shown(path)} is not absolute; start it with /")
    if path != "/":
        _check_path_parts(path, path[1:])
    return path


def check_relative_path(path: str) -> str:
    """A path below some folder, in its shortest spelling."""
    if path.startswith("/"):
        raise refuse("path-not-relative", f"{shown(path)} is absolute; give a path below the folder, without / first")
    _check_path_parts(path, path)
    return path


def _check_path_parts(path: str, relative: str) -> None:
    if any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise refuse("path-character", f"{shown(path)} has a control character; leave it out")
    if any(part in {"", ".", ".."} for part in relative.split("/")):
        raise refuse(
            "path-not-normal", f"{shown(path)} is not in its shortest form; no //, no . or .., no / at the end"
        )
    if len(path) > PATH_MAX or any(len(part.encode()) > PATH_PART_MAX_BYTES for part in relative.split("/")):
        raise refuse(
            "path-too-long",
            f"a path has at most {PATH_MAX} characters and {PATH_PART_MAX_BYTES} bytes between two slashes",
        )


def check_digest(digest: str) -> str:
    """Digest of an upload, as the upload call answers it."""
    if _DIGEST.fullmatch(digest) is None:
        raise refuse(
            "digest-invalid",
            f"{shown(digest)} is no upload; give the digest (sha256:…) that POST /v1/assets/uploads answered, "
            "or let `trainmaster apply` pack the folder",
        )
    return digest


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise refuse("wrong-type", "a duration is text with its units, as in 90s, 30m or 2h30m")
    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise refuse("duration-invalid", str(error)) from None


def _above_zero(seconds: float) -> float:
    if seconds <= 0:
        raise refuse("out-of-range", "this duration is zero; give a longer one, such as 30m")
    return seconds


def _at_most_an_hour(seconds: float) -> float:
    if seconds > 3600:
        raise refuse("out-of-range", f"{format_duration(seconds)} is too long; give at most 1h")
    return seconds


def _at_most_a_week(seconds: float) -> float:
    if seconds > 7 * 24 * 3600:
        raise refuse("out-of-range", f"{format_duration(seconds)} is too long; give at most 168h")
    return seconds


Name = Annotated[str, AfterValidator(check_name)]
NamePrefix = Annotated[str, AfterValidator(check_name_prefix)]
DnsLabel = Annotated[str, AfterValidator(check_dns_label)]
EnvName = Annotated[str, AfterValidator(check_env_name)]
Text = Annotated[str, AfterValidator(check_text)]
Argument = Annotated[str, AfterValidator(check_argument)]
Command = Annotated[str, AfterValidator(check_command)]
AbsolutePath = Annotated[str, AfterValidator(check_absolute_path)]
RelativePath = Annotated[str, AfterValidator(check_relative_path)]
UploadDigest = Annotated[str, AfterValidator(check_digest)]
Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["90s", "30m", "2h30m"]}),
]
PositiveDuration = Annotated[Duration, AfterValidator(_above_zero)]
GraceDuration = Annotated[Duration, AfterValidator(_at_most_an_hour)]
KeepDuration = Annotated[PositiveDuration, AfterValidator(_at_most_a_week)]
