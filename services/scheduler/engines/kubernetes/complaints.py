"""What the events of a pod say that its own status does not: why its node cannot mount, attach or set up what it needs.

While a kubelet prepares a container a pod's status says so and nothing more, whether an image is on its way or a claim
does not exist; the reason is in an event. Of those kinds of events that are known here the last one counts, and none
from before the gang was released, since until then every pod lacks the gang's files on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from shared.clock import parse_rfc3339
from shared.kubernetes.documents import Json

_SAID_MAX: Final = 300
_CLAIM: Final = re.compile(r"error processing PVC (?P<namespace>[^/\s]+)/(?P<claim>[^:\s]+): (?P<why>.*)", re.DOTALL)
_NO_DIRECTORY: Final = re.compile(r"hostPath type check failed: (?P<path>.+) is not a directory")
_NO_CONFIG_MAP: Final = re.compile(r'configmap "(?P<name>[^"]+)" not found')
# What the command `mount` wrote comes after what it was called with.
_OUTPUT: Final = re.compile(r".*\bOutput: ", re.DOTALL)


def complaint(events: Iterable[Json], node: str, since: datetime) -> str:
    """What keeps a pod from being started, by what happened since then, in words; empty where no event says it."""
    told = list(_told(events, node, since))
    return max(told, key=lambda each: each[0])[1] if told else ""


def _told(events: Iterable[Json], node: str, since: datetime) -> Iterator[tuple[datetime, str]]:
    for event in events:
        words, at = _WORDS.get(str(event.get("reason"))), _last_seen(event)
        if words is not None and at is not None and at >= since:
            yield at, words(str(event.get("message") or ""), node)


def _last_seen(event: Json) -> datetime | None:
    """Events that are told again are counted in the same object, in one of two ways."""
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return parse_rfc3339(str(text)) if text else None


def _mounting(said: str, node: str) -> str:
    if claim := _CLAIM.search(said):
        return _claim(claim["claim"], claim["namespace"], claim["why"])
    if directory := _NO_DIRECTORY.search(said):
        return f"its node {node} has no directory {directory['path']}"
    if missing := _NO_CONFIG_MAP.search(said):
        return f"its node {node} has not found the ConfigMap {missing['name']} yet; it looks again within two minutes"
    return f"its node {node} cannot mount a volume ({_short(_OUTPUT.sub('', said))})"


def _claim(claim: str, namespace: str, why: str) -> str:
    if "not found" in why:
        return f"the claim {claim} does not exist in namespace {namespace}"
    if "not bound" in why:
        return (
            f"the claim {claim} in namespace {namespace} is bound to no volume; one whose storage class waits for its "
            "first consumer has to be bound beforehand, or used in a pool with binding: kubernetes"
        )
    return f"the claim {claim} in namespace {namespace} cannot be used ({_short(why)})"


def _attaching(said: str, node: str) -> str:
    return f"a volume cannot be attached to its node {node} ({_short(said)})"


def _isolating(said: str, node: str) -> str:
    return f"its node {node} cannot set up the pod's sandbox or network ({_short(said)})"


def _pulling(_: str, node: str) -> str:
    return f"its node {node} pulls the image"


_WORDS: Final[dict[str, Callable[[str, str], str]]] = {
    "FailedMount": _mounting,
    "FailedMapVolume": _mounting,
    "FailedAttachVolume": _attaching,
    "FailedCreatePodSandBox": _isolating,
    "NetworkNotReady": _isolating,
    "Pulling": _pulling,
}


def _short(said: str) -> str:
    text = " ".join(said.split())
    return text if len(text) <= _SAID_MAX else f"{text[: _SAID_MAX - 1]}…"
