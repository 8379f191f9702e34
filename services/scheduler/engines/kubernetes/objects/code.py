"""How `/code` comes into a replica: an init container of the platform's own image lays it into a folder of the pod.

Small archives and inline files lie in a ConfigMap of the gang. Larger archives are fetched from the scheduler with a
ticket for this one archive, which the gang's Secret holds. A directory of a node is copied, so that a change of it
while the gang runs reaches no replica. Whatever goes wrong is told in the container's termination message.

Host lists that fit into no ConfigMap come in the same way, compressed.
"""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.mounts import CODE, volume_of
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.engines.kubernetes.objects.volumes import Volume, scratch
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeDirectory, CodeInline, CodePacked, CodeUpload, GangMount, GangStart
from shared.admission.packing import compressed
from shared.catalog.fields import file_uri
from shared.environment import ETC_DIR
from shared.kubernetes.names import CODE_CONTAINER, FILES_CONTAINER

PROGRAM: Final = ("python3", "-m", "services.scheduler.engines.kubernetes.laying")
ARCHIVE_KEY: Final = "archive.tar.gz"
TICKET_VARIABLE: Final = "TM_CODE_TICKET"
_INPUT: Final = "/mnt/input"
_CODE_MAX: Final = "5Gi"
_FILES_MAX: Final = "64Mi"


@dataclass(frozen=True, slots=True)
class Laid:
    """One folder that an init container fills: how, from what, and what has to be there for it.

    `archive` goes into a ConfigMap of the gang that is called as `config_map` says, `ticket` into its Secret.
    """

    name: str
    target: Volume
    arguments: tuple[str, ...]
    inputs: tuple[Volume, ...] = ()
    config_map: str = ""
    archive: bytes = b""
    ticket: str = ""

    @property
    def contents(self) -> Mapping[str, str]:
        """What the ConfigMap holds."""
        return {ARCHIVE_KEY: base64.b64encode(self.archive).decode()}


def laid_code(gang: GangStart, settings: ObjectSettings) -> Laid | None:
    """How the gang's code is laid, if it has any; raises StartRefusedError where that cannot be done here."""
    match gang.code:
        case None:
            return None
        case CodeInline(files):
            return _from_archive(CODE_CONTAINER, _code_folder(), gang, compressed(files))
        case CodePacked(content):
            return _from_archive(CODE_CONTAINER, _code_folder(), gang, content)
        case CodeUpload(digest, ticket):
            return _from_url(gang.id, digest, ticket, settings)
        case CodeDirectory(path, root):
            return _from_directory(str(path), str(root or path), settings)
        case _:
            raise StartRefusedError(f"code of this kind cannot be laid in a pod: {type(gang.code).__name__}")


def laid_files(gang: GangStart) -> Laid:
    """How files that are too large for ConfigMaps are laid at /etc/trainmaster."""
    return _from_archive(FILES_CONTAINER, scratch(FILES_CONTAINER, ETC_DIR, _FILES_MAX), gang, compressed(gang.files))


def init_container(laid: Laid, common: Json, tickets: str) -> Json:
    """The container that lays it; `common` is what all such containers have alike, `tickets` a Secret."""
    reference = {"secretKeyRef": {"name": tickets, "key": TICKET_VARIABLE}}
    ticket = [{"name": TICKET_VARIABLE, "valueFrom": reference}] if laid.ticket else []
    return {
        "name": laid.name,
        "command": [*PROGRAM, *laid.arguments],
        "env": [{"name": "HOME", "value": "/tmp"}, *ticket],  # noqa: S108  # in the container
        "volumeMounts": [volume.mount() for volume in (laid.target, *laid.inputs)],
        **common,
    }


def _code_folder() -> Volume:
    return scratch(CODE_CONTAINER, CODE, _CODE_MAX)


def _from_archive(name: str, target: Volume, gang: GangStart, archive: bytes) -> Laid:
    config_map = f"{gang.id}-{name}"
    source = Volume(f"{name}-input", {"configMap": {"name": config_map}}, _INPUT, read_only=True)
    arguments = ("archive", f"{_INPUT}/{ARCHIVE_KEY}", target.path)
    return Laid(name, target, arguments, (source,), config_map, archive)


def _from_url(gang: str, digest: str, ticket: str, settings: ObjectSettings) -> Laid:
    if not settings.code_url:
        raise StartRefusedError(
            "the code is too large for a ConfigMap, and this platform was not told where pods reach it; "
            "whoever runs it can set TRAINMASTER_KUBE_CODE_URL"
        )
    target = _code_folder()
    url = f"{settings.code_url.rstrip('/')}/v1/gang-code/{gang}"
    return Laid(CODE_CONTAINER, target, ("url", url, digest, target.path), ticket=ticket)


def _from_directory(path: str, root: str, settings: ObjectSettings) -> Laid:
    relative = posixpath.relpath(path, root)
    mount = GangMount(None, _INPUT, read_only=True, uri=file_uri(root), sub_path="" if relative == "." else relative)
    target = _code_folder()
    return Laid(
        CODE_CONTAINER, target, ("directory", _INPUT, target.path), (volume_of("code-input", mount, settings.volumes),)
    )
