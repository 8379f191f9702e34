"""The network of a gang: names for its replicas, and a policy by which they reach each other and nobody reaches them.

The Service has no address of its own. It makes `<replica>.<gang>` resolve, also before a replica is ready, as replicas
wait for each other before any of them is.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from services.scheduler.engines.kubernetes.objects.labels import selector
from services.scheduler.engines.kubernetes.objects.manifest import Json, object_of
from services.scheduler.engines.kubernetes.objects.settings import Egress, ObjectSettings
from services.scheduler.ports.gangs import GangStart
from shared.kubernetes.names import GANG_LABEL

_Network = IPv4Network | IPv6Network
_DNS: Final = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}


def service(gang: GangStart, namespace: str, settings: ObjectSettings) -> Json:
    """The headless Service under whose name the replicas have theirs."""
    document = object_of("Service", gang.id, gang, namespace, settings.cluster)
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GANG_LABEL: gang.id}}
    return {**document, "spec": spec}


def network_policy(gang: GangStart, namespace: str, settings: ObjectSettings, *, fetches_code: bool) -> Json:
    """Who may talk to whom: the gang to itself and to where an admin lets it, nobody else to the gang."""
    document = object_of("NetworkPolicy", gang.id, gang, namespace, settings.cluster, api="networking.k8s.io/v1")
    itself = [{"podSelector": selector(gang)}]
    spec = {
        "podSelector": selector(gang),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": itself}],
        "egress": [{"to": itself}, _DNS, *_code(fetches_code), *_egress(settings.egress)],
    }
    return {**document, "spec": spec}


def _code(fetches_code: bool) -> Iterator[Json]:  # noqa: FBT001  # private
    """Init containers fetch large code from the scheduler, in whatever namespace it is."""
    if fetches_code:
        labels = {"app.kubernetes.io/name": "trainmaster", "app.kubernetes.io/component": "scheduler"}
        yield {"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": labels}}]}


def _egress(egress: Egress) -> Iterator[Json]:
    blocks = [_block(network, egress.excepted) for network in egress.networks]
    if blocks:
        yield {"to": [{"ipBlock": block} for block in blocks]}


def _block(network: str, excepted: tuple[str, ...]) -> Json:
    """A network less those of the exceptions that lie in it, as the API wants it."""
    inside = [each for each in excepted if each != network and _lies_in(ip_network(each), ip_network(network))]
    return {"cidr": network, "except": inside} if inside else {"cidr": network}


def _lies_in(part: _Network, whole: _Network) -> bool:
    if isinstance(part, IPv4Network) and isinstance(whole, IPv4Network):
        return part.subnet_of(whole)
    return isinstance(part, IPv6Network) and isinstance(whole, IPv6Network) and part.subnet_of(whole)
