"""URIs of data that a cluster mounts: `pvc://<claim>[/<path>]` and `nfs://<server>/<path>`, and schemes of all kinds.

A claim is a PersistentVolumeClaim in the namespace in which jobs run. What stands behind the name is taken literally,
as in `file://` and `s3://`.
"""

from __future__ import annotations

import re
from typing import Final

from shared.documents.fields import check_absolute_path, check_relative_path, refuse, shown

PVC_SCHEME: Final = "pvc://"
NFS_SCHEME: Final = "nfs://"
VOLUME_SCHEMES: Final = (PVC_SCHEME, NFS_SCHEME)

_CLAIM: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)
_CLAIM_MAX: Final = 253
_SERVER: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:]{2,39}\]", re.ASCII)


def scheme_of(uri: str) -> str:
    """What stands before `://`."""
    return uri.partition("://")[0]


def claim_and_path(uri: str) -> tuple[str, str]:
    """The claim of a `pvc://` URI, and the path in it, which is empty for the whole claim."""
    claim, _, path = uri.removeprefix(PVC_SCHEME).partition("/")
    return claim, path


def server_and_path(uri: str) -> tuple[str, str]:
    """The server of an `nfs://` URI and the absolute path there."""
    server, _, path = uri.removeprefix(NFS_SCHEME).partition("/")
    return server.strip("[]"), f"/{path}"


def check_volume_uri(uri: str) -> str:
    """The URI as it is; refuses what names no claim or server, and no path that could be one."""
    return _check_claim(uri) if uri.startswith(PVC_SCHEME) else _check_nfs(uri)


def _check_claim(uri: str) -> str:
    claim, slash, path = uri.removeprefix(PVC_SCHEME).partition("/")
    if len(claim) > _CLAIM_MAX or _CLAIM.fullmatch(claim) is None:
        raise refuse("uri-invalid", f"{shown(uri)} has no name of a claim; give one such as pvc://team-data/mnist")
    if slash:
        check_relative_path(path)
    return uri


def _check_nfs(uri: str) -> str:
    server, slash, path = uri.removeprefix(NFS_SCHEME).partition("/")
    if _SERVER.fullmatch(server) is None or not slash:
        raise refuse("uri-invalid", f"{shown(uri)} has no server and path; give both, as in nfs://files.example/data")
    check_absolute_path(f"/{path}")
    return uri
