"""What a replica is given, in the words of Kubernetes: requests that are limits as well, so that nothing is shared."""

from __future__ import annotations

from collections.abc import Mapping

from services.scheduler.engines.kubernetes.objects.manifest import Json
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings
from services.scheduler.ports.gangs import GangStart, ReplicaStart


def resources(replica: ReplicaStart, settings: ObjectSettings) -> Json:
    """Of the container in which the command runs."""
    amounts = quantities(_amounts(replica, settings))
    return {"requests": amounts, "limits": amounts}


def preparing_resources(replica: ReplicaStart) -> Json:
    """Of a container that prepares it: the same without devices, as only one of the two runs at a time."""
    amounts = quantities({"cpu": replica.cpu_m, "memory": replica.memory_bytes or 0})
    return {"requests": amounts, "limits": amounts}


def together(gang: GangStart, settings: ObjectSettings) -> dict[str, str]:
    """What the whole gang is given."""
    total: dict[str, int] = {}
    for replica in gang.replicas:
        for name, amount in _amounts(replica, settings).items():
            total[name] = total.get(name, 0) + amount
    return quantities(total)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Millicores, bytes and counts as Kubernetes writes them; what is nothing is left out."""
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items() if amount}


def _amounts(replica: ReplicaStart, settings: ObjectSettings) -> dict[str, int]:
    gpus = {settings.gpu_resource(replica.gpu_model): replica.gpus} if replica.gpus else {}
    return {"cpu": replica.cpu_m, "memory": replica.memory_bytes or 0, **gpus}
