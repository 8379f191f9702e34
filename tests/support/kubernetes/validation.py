"""What the API server refuses as invalid: the rules that objects of the platform could come near.

Not all of Kubernetes' validation: names, labels and their sizes, containers and their mounts, what may change.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.errors import ApiError, invalid
from tests.support.kubernetes.resources import Json, Resource

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")
LABEL_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
ANNOTATIONS_MAX_BYTES: Final = 256 << 10
DATA_MAX_BYTES: Final = 1 << 20
NAMED_BY_LABEL: Final = {"namespaces", "services"}
CHANGEABLE_IN_POD: Final = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"}


def check_new(resource: Resource, item: Json) -> None:
    """Refuse an object that may not be made."""
    name = item["metadata"]["name"]
    _check_name(resource, name)
    _check_metadata(resource, item)
    if resource is kinds.PODS:
        _check_pod(item)
    elif resource in {kinds.CONFIG_MAPS, kinds.SECRETS}:
        _check_data(resource, item)


def check_change(resource: Resource, before: Json, after: Json) -> None:
    """Refuse a change that may not be made."""
    name = after["metadata"]["name"]
    _check_metadata(resource, after)
    if resource is kinds.PODS and _frozen(before["spec"]) != _frozen(after.get("spec") or {}):
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        raise invalid(resource, name, "spec", why, "FieldValueForbidden")
    if resource in {kinds.CONFIG_MAPS, kinds.SECRETS}:
        _check_data(resource, after)
        if before.get("immutable") and before.get("data") != after.get("data"):
            raise invalid(
                resource, name, "data", "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden"
            )


def _check_name(resource: Resource, name: str) -> None:
    if resource.plural in NAMED_BY_LABEL:
        good, rule = LABEL.fullmatch(name) is not None, "a lowercase RFC 1123 label must consist of"
        limit = "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"
    else:
        good, rule = SUBDOMAIN.fullmatch(name) is not None and len(name) <= 253, "a lowercase RFC 1123 subdomain must"
        limit = "consist of lower case alphanumeric characters, '-' or '.', and must start and end with one of them"
    if not good:
        raise invalid(resource, name, "metadata.name", f'Invalid value: "{name}": {rule} {limit}')


def _check_metadata(resource: Resource, item: Json) -> None:
    metadata = item["metadata"]
    name = metadata["name"]
    for key, value in (metadata.get("labels") or {}).items():
        if LABEL_KEY.fullmatch(key) is None:
            raise invalid(resource, name, "metadata.labels", f'Invalid value: "{key}": name part must be a label key')
        if LABEL_VALUE.fullmatch(value) is None:
            why = f'Invalid value: "{value}": a valid label must be an empty string or at most 63 characters of a label'
            raise invalid(resource, name, "metadata.labels", why)
    if len(json.dumps(metadata.get("annotations") or {})) > ANNOTATIONS_MAX_BYTES:
        why = f"Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes"
        raise invalid(resource, name, "metadata.annotations", why, "FieldValueTooLong")


def _check_data(resource: Resource, item: Json) -> None:
    name = item["metadata"]["name"]
    data = {**(item.get("data") or {}), **(item.get("binaryData") or {})}
    for key in data:
        if CONFIG_KEY.fullmatch(key) is None:
            why = (
                f"Invalid value: \"{key}\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
            )
            raise invalid(resource, name, f"data[{key}]", why)
    if sum(map(len, data.values())) > DATA_MAX_BYTES:
        why = f"Too long: may not be more than {DATA_MAX_BYTES} bytes"
        raise invalid(resource, name, "[]", why, "FieldValueTooLong")


def _check_pod(item: Json) -> None:
    name, spec = item["metadata"]["name"], item["spec"]
    if not spec.get("containers"):
        raise _required(name, "spec.containers")
    for field in ("hostname", "subdomain"):
        if (value := spec.get(field)) and LABEL.fullmatch(value) is None:
            why = f"Invalid value: \"{value}\": a lowercase RFC 1123 label must consist of lower case letters or '-'"
            raise invalid(kinds.PODS, name, f"spec.{field}", why)
    volumes = {each.get("name") for each in spec.get("volumes") or []}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            _check_container(name, f"spec.{field}[{index}]", container, volumes)


def _check_container(pod: str, place: str, container: Json, volumes: set[Any]) -> None:
    for field in ("name", "image"):
        if not container.get(field):
            raise _required(pod, f"{place}.{field}")
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            where = f"{place}.volumeMounts[{index}].name"
            raise invalid(kinds.PODS, pod, where, f'Not found: "{mount.get("name")}"', "FieldValueNotFound")


def _required(pod: str, field: str) -> ApiError:
    return invalid(kinds.PODS, pod, field, "Required value", "FieldValueRequired")


def _frozen(spec: Json) -> Json:
    fixed = {key: value for key, value in spec.items() if key not in CHANGEABLE_IN_POD and key != "nodeName"}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{**each, "image": ""} for each in fixed[field]]
    return {**fixed, "nodeName": spec.get("nodeName")}
