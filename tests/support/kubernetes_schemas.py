"""Whether a manifest is what a version of Kubernetes takes, by the schemas of `kubernetes-validate`.

The package reads its schemas anew for every object, which takes half a second; here each is read once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

VERSION = "1.36"
FOLDER = f"kubernetes-json-schema/v{VERSION}.0-local-strict"


def check(manifest: dict[str, Any]) -> None:
    """Raise jsonschema.ValidationError where the manifest is none, or says more than there is."""
    _validator(manifest["kind"], manifest["apiVersion"]).validate(manifest)


@cache
def _validator(kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    name = f"{kind}-{api_version.replace('.k8s.io', '').replace('/', '-')}".lower()
    schema = schema_contents(f"{FOLDER}/{name}.json", VERSION)
    registry: Registry[Any] = _definitions() @ (Resource.from_contents(schema) @ Registry())
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _definitions() -> Resource[Any]:
    return Resource.from_contents(schema_contents(f"{FOLDER}/_definitions.json", VERSION))
