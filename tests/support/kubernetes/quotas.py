"""Quotas of a namespace: what its `ResourceQuota` objects allow, counted anew at every creation."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Final

from tests.support.kubernetes import resources as kinds
from tests.support.kubernetes.errors import forbidden
from tests.support.kubernetes.resources import Json, Resource
from tests.support.kubernetes.store import Store

UNITS: Final = {
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(1 << 10),
    "Mi": Decimal(1 << 20),
    "Gi": Decimal(1 << 30),
    "Ti": Decimal(1 << 40),
}
ENDED: Final = {"Succeeded", "Failed"}


def quantity(text: str | float) -> Decimal:
    """A Kubernetes quantity, such as `500m` or `2Gi`, as a number."""
    written = str(text)
    for unit in sorted(UNITS, key=len, reverse=True):
        if written.endswith(unit):
            return Decimal(written[: -len(unit)]) * UNITS[unit]
    return Decimal(written)


def check_quota(store: Store, resource: Resource, item: Json) -> None:
    """Refuse a new object that a quota of its namespace leaves no room for."""
    namespace = item["metadata"].get("namespace")
    wanted = _demand(resource, item)
    for quota in store.items(kinds.RESOURCE_QUOTAS):
        if quota["metadata"]["namespace"] != namespace:
            continue
        hard = quota["spec"].get("hard") or {}
        used = _used(store, namespace)
        over = sorted(key for key in wanted if key in hard and used[key] + wanted[key] > quantity(hard[key]))
        if over:
            raise forbidden(resource, item["metadata"]["name"], _sentence(quota, over, wanted, used, hard))


def _sentence(quota: Json, over: list[str], wanted: Counter[str], used: Counter[str], hard: dict[str, str]) -> str:
    def told(amounts: Counter[str] | dict[str, str]) -> str:
        return ",".join(f"{key}={amounts[key]}" for key in over)

    name = quota["metadata"]["name"]
    return f"exceeded quota: {name}, requested: {told(wanted)}, used: {told(used)}, limited: {told(hard)}"


def _used(store: Store, namespace: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for resource, item in store.everything():
        ended = (item.get("status") or {}).get("phase") in ENDED
        if item["metadata"].get("namespace") == namespace and not (resource is kinds.PODS and ended):
            total += _demand(resource, item)
    return total


def _demand(resource: Resource, item: Json) -> Counter[str]:
    amounts: Counter[str] = Counter({resource.plural: 1, f"count/{resource.qualified}": 1})
    if resource is kinds.PODS:
        for container in item["spec"]["containers"]:
            for side, values in (container.get("resources") or {}).items():
                for key, value in (values or {}).items():
                    amounts[f"{side}.{key}"] += quantity(value)  # type: ignore[assignment]
    return amounts
