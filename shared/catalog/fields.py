"""Field types that only catalog documents have: amounts of CPU and memory, prices, URIs of data, passwords.

Amounts are integers in Python (millicores, bytes, millionths of the currency) and text in JSON, as users write them.
A `file://` or `s3://` URI is taken literally: what stands behind the two slashes is the path, or bucket and key, and
nothing in it is escaped. For `pvc://` and `nfs://` see `volumes`.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from shared.catalog.volumes import VOLUME_SCHEMES, check_volume_uri
from shared.documents.fields import check_absolute_path, check_relative_path, refuse, shown
from shared.units import GIB, KIB, MIB, parse_cpu, parse_memory

FILE_SCHEME: Final = "file://"
S3_SCHEME: Final = "s3://"
MICROS: Final = 1_000_000
PRICE_MAX_MICROS: Final = 1_000_000 * MICROS
PASSWORD_MIN: Final = 12
PASSWORD_MAX: Final = 256
SECRET_MAX_BYTES: Final = 64 * KIB

_GIT_URL: Final = re.compile(r"https://[A-Za-z0-9.\-]+(:[0-9]{1,5})?/[A-Za-z0-9._~%+,/\-]{1,1000}", re.ASCII)
_DIRECTORY: Final = re.compile(r"(?!nfs://[^/]*/\Z)\w+://.*[^/]/", re.ASCII | re.DOTALL)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_AMOUNT = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]})


def file_path(uri: str) -> str:
    """The absolute path that a `file://` URI means."""
    return uri.removeprefix(FILE_SCHEME)


def file_uri(path: str) -> str:
    """The URI of an absolute path."""
    return FILE_SCHEME + path


def place_of(uri: str) -> str:
    """What is compared to tell whether one place lies in another: the path of a `file://` URI, or any other URI."""
    return uri.removeprefix(FILE_SCHEME)


def uri_of(place: str) -> str:
    """The URI of a place."""
    return FILE_SCHEME + place if place.startswith("/") else place


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Bucket, and key below which everything is, of an `s3://` URI; the key is empty for the whole bucket."""
    bucket, _, key = uri.removeprefix(S3_SCHEME).partition("/")
    return bucket, key


def format_cpu(millis: int) -> str:
    """Cores where they are whole, millicores otherwise."""
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def format_memory(size_bytes: int) -> str:
    """Gibibytes where they are whole, mebibytes otherwise."""
    return f"{size_bytes // GIB}Gi" if size_bytes % GIB == 0 else f"{size_bytes // MIB}Mi"


def format_price(micros: int) -> str:
    """Units of the currency, with as many decimals as there are."""
    return f"{Decimal(micros) / MICROS:f}"


def _cpu(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refuse("wrong-type", "a CPU amount is a number of cores, as in 2 or 0.5, or text as in 500m")
    try:
        return parse_cpu(value)
    except ValueError as error:
        raise refuse("cpu-invalid", str(error)) from None


def _memory(value: object) -> int:
    if not isinstance(value, str):
        raise refuse("wrong-type", "a memory amount is text with its unit, as in 512Mi or 4Gi")
    try:
        size_bytes = parse_memory(value)
    except ValueError as error:
        raise refuse("memory-invalid", str(error)) from None
    if size_bytes < KIB:
        raise refuse("out-of-range", "no replica runs without memory; give an amount such as 512Mi")
    return size_bytes


def _price(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refuse("wrong-type", 'a price is an amount of the currency, best as text: "1.25"')
    try:
        micros = Decimal(str(value)) * MICROS
    except InvalidOperation:
        micros = Decimal(-1)
    if not (micros.is_finite() and 0 <= micros <= PRICE_MAX_MICROS and micros == int(micros)):
        raise refuse(
            "price-invalid", f"{shown(str(value))} is no price; give an amount of at most six decimals, such as 1.25"
        )
    return int(micros)


def _data_uri(written: str) -> str:
    uri = _without_last_slash(written)
    if uri.startswith(VOLUME_SCHEMES):
        return check_volume_uri(uri)
    return _check_s3(uri) if uri.startswith(S3_SCHEME) else _directory_uri(uri)


def _without_last_slash(uri: str) -> str:
    """A directory may be written with a slash at its end; the root of a machine or of a server has no other name."""
    return uri[:-1] if _DIRECTORY.fullmatch(uri) else uri


def _check_s3(uri: str) -> str:
    bucket, slash, key = uri.removeprefix(S3_SCHEME).partition("/")
    if _BUCKET.fullmatch(bucket) is None:
        raise refuse("uri-invalid", f"{shown(uri)} has no name of a bucket; give one such as s3://my-bucket/mnist")
    if slash:
        check_relative_path(key)
    return uri


def _directory_uri(written: str) -> str:
    uri = _without_last_slash(written)
    scheme = next((scheme for scheme in (S3_SCHEME, *VOLUME_SCHEMES) if uri.startswith(scheme)), None)
    if scheme:
        raise refuse("uri-invalid", f"code is not at {scheme}; give a file:// URI, or use upload, inline or git")
    if not uri.startswith(FILE_SCHEME):
        raise refuse(
            "uri-invalid", f"{shown(uri)} has no scheme that is known here; give one such as file:///data/mnist"
        )
    check_absolute_path(file_path(uri))
    return uri


def _git_url(url: str) -> str:
    """A repository by https, or on this machine; credentials have no place in it, as everybody sees it."""
    if url.startswith(FILE_SCHEME):
        check_absolute_path(file_path(url))
        return url
    if url.startswith("ssh://"):
        raise refuse("not-yet-available", "ssh:// is not available yet; give an https:// URL")
    if _GIT_URL.fullmatch(url) is None:
        raise refuse(
            "uri-invalid",
            f"{shown(url)} is no git URL that is known here; give one such as https://git.example/team/code.git, "
            "without user, password, query and fragment",
        )
    return url


def check_password(password: str) -> str:
    """A password that is long enough; length is what counts, so nothing else is asked of it. It is never shown."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise refuse("password-length", f"a password has {PASSWORD_MIN} to {PASSWORD_MAX} characters")
    if len(set(password)) < PASSWORD_MIN // 3:
        raise refuse("password-simple", "this password repeats a few characters only; choose one that is hard to guess")
    return password


def check_secret_value(value: str) -> str:
    """Text that fits into an environment variable. It is never shown."""
    if not 1 <= len(value.encode("utf-8", "surrogatepass")) <= SECRET_MAX_BYTES:
        raise refuse("secret-length", f"the value of a secret has 1 to {SECRET_MAX_BYTES} bytes")
    if "\0" in value:
        raise refuse("nul-character", "the value of a secret has no NUL character; leave it out")
    return value


Cpu = Annotated[int, BeforeValidator(_cpu), PlainSerializer(format_cpu, return_type=str), _AMOUNT]
Memory = Annotated[int, BeforeValidator(_memory), PlainSerializer(format_memory, return_type=str), _AMOUNT]
Price = Annotated[int, BeforeValidator(_price), PlainSerializer(format_price, return_type=str), _AMOUNT]
DataUri = Annotated[str, AfterValidator(_data_uri)]
DirectoryUri = Annotated[str, AfterValidator(_directory_uri)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Password = Annotated[str, AfterValidator(check_password)]
SecretValue = Annotated[str, AfterValidator(check_secret_value)]
