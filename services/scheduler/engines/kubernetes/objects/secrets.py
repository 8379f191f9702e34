"""Secrets of a gang: the variables that only its replicas may see, and what opens the registry of its image."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final

from services.scheduler.engines.kubernetes.objects.manifest import Json, object_of
from services.scheduler.engines.kubernetes.objects.packing import BODY_MAX_BYTES, size_of
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import GangStart
from shared.units import format_bytes

DOCKER_CONFIG: Final = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG_KEY: Final = ".dockerconfigjson"


def secret(name: str, contents: Mapping[str, str], gang: GangStart, namespace: str, settings: ObjectSettings) -> Json:
    """A Secret with these texts; raises StartRefusedError where they are more than one holds."""
    if sum(len(key) + size_of(text) for key, text in contents.items()) > BODY_MAX_BYTES:
        raise StartRefusedError(f"the job's secrets have more than {format_bytes(BODY_MAX_BYTES)} together")
    document = object_of("Secret", name, gang, namespace, settings.cluster)
    data = {key: _encoded(text) for key, text in contents.items()}
    return {**document, "type": "Opaque", "immutable": True, "data": data}


def pull_secret(name: str, config: str, gang: GangStart, namespace: str, settings: ObjectSettings) -> Json:
    """What opens the registry; raises StartRefusedError where the text is no configuration of Docker."""
    check_docker_config(config)
    document = object_of("Secret", name, gang, namespace, settings.cluster)
    return {**document, "type": DOCKER_CONFIG, "immutable": True, "data": {DOCKER_CONFIG_KEY: _encoded(config)}}


def check_docker_config(text: str) -> None:
    """Raise StartRefusedError where the text is not what `docker login` writes."""
    try:
        accounts = json.loads(text)["auths"]
        fits = bool(accounts) and all(isinstance(account, dict) for account in accounts.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise StartRefusedError(
            "the pull secret of the image is no configuration of Docker; give the text of a .dockerconfigjson, as in "
            '{"auths": {"registry.example": {"username": "…", "password": "…"}}}'
        )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
