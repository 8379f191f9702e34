"""What a pod's document says of the replica that it is: waits (and for what), runs, or has ended (and how).

A pod tells it in four places, which are looked at in this order: why it was thrown out as a whole (`status.reason`, and
the condition `DisruptionTarget`), how its init containers fared, how its command's container fares, and whether a node
was found for it. Only what is needed of a pod is kept, since there are thousands of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from shared.clock import parse_rfc3339
from shared.events import OutOfMemory, ReplicaExit
from shared.kubernetes import names
from shared.kubernetes.documents import Json

PULL_PROBLEMS: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
OUT_OF_MEMORY: Final = "OOMKilled"
SIGKILL: Final = 9
# How a runtime tells that the first process of a container was killed.
KILLED: Final = 128 + SIGKILL
# A node that is asked to run a pod for which it has no room or right of way says one of these, or `OutOf<resource>`.
_NODE_REFUSALS: Final = frozenset(
    {
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodeSelectorMismatching",
        "NodePorts",
        "NodeName",
        "Taint",
    }
)
_THROWN_OUT: Final = {
    "Evicted": "its node evicted it",
    "Preempting": "its node made room for a pod of the system",
    "Terminated": "its node was shut down",
    "NodeShutdown": "its node was shut down",
    "Shutdown": "its node was shut down",
    "NodeLost": "its node was lost",
    "DeadlineExceeded": "its pod had a deadline",
}
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": "Kubernetes preempted it for a pod of higher priority",
    "DeletionByTaintManager": "its node was lost or closed, and Kubernetes gave the pod up",
    "EvictionByEvictionAPI": "it was evicted through the API, as when a node is drained",
    "DeletionByPodGC": "its node is no more, and Kubernetes removed the pod",
    "TerminationByKubelet": "its node ended it, as it was short of a resource or shut down",
}
_PREPARES: Final = "its node prepares the container"
_WORDS: Final = {
    "ContainerCreating": _PREPARES,
    "PodInitializing": _PREPARES,
    "CreateContainerConfigError": "its container cannot be set up",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be started",
    "CrashLoopBackOff": "its container does not stay up",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """The pod's command has ended, or will never start."""

    at: datetime
    exit: ReplicaExit


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A replica's pod; `node` is empty while it is bound to none.

    `deleted_at` is when somebody asked for its deletion, and `disruption` why Kubernetes did.
    """

    namespace: str
    name: str
    uid: str
    gang: str
    role: str
    index: int
    node: str = ""
    started_at: datetime | None = None
    ended: Ended | None = None
    waiting: str = ""
    deleted_at: datetime | None = None
    disruption: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Which replica of the gang it is."""
        return self.role, self.index

    @property
    def waits_for_something_unsaid(self) -> bool:
        """Whether it is on a node, and does not say what keeps it from running."""
        is_over = self.started_at is not None or self.ended is not None or self.deleted_at is not None
        return bool(self.node) and not is_over and self.waiting in ("", _PREPARES)


def pod_seen(pod: Json) -> PodSeen | None:
    """What matters of the pod of a replica; None of any other, and of a copy, which has its labels and another name."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    marks = metadata.get("labels") or {}
    gang, role, index = marks.get(names.GANG_LABEL), marks.get(names.ROLE_LABEL), marks.get(names.INDEX_LABEL, "")
    if not gang or not role or not index.isdecimal() or metadata["name"] != f"{gang}-{role}-{index}":
        return None
    main = _main_status(pod)
    return PodSeen(
        namespace=sys.intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        gang=sys.intern(gang),
        role=sys.intern(role),
        index=int(index),
        node=sys.intern(pod["spec"].get("nodeName") or ""),
        started_at=_started_at(main),
        ended=_ended(status, main, metadata),
        waiting=_waiting(pod, main),
        deleted_at=_deleted_at(metadata),
        disruption=_disruption(status),
    )


# --- when


def _time(text: object) -> datetime | None:
    return parse_rfc3339(str(text)) if text else None


def _deleted_at(metadata: Mapping[str, Any]) -> datetime | None:
    """The server notes when the grace is over; it was asked so much earlier, or long ago where the grace is no time."""
    over_at = _time(metadata.get("deletionTimestamp"))
    try:
        return over_at - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0) if over_at else None
    except OverflowError:
        return datetime.fromtimestamp(0, UTC)


def _started_at(main: Json) -> datetime | None:
    state = main.get("state") or {}
    begun = state.get("running") or state.get("terminated") or {}
    return _time(begun.get("startedAt")) if _was_started(begun) else None


def _was_started(state: Json) -> bool:
    """A container that could not be started has an end, too, at the time zero of its runtime."""
    text = str(state.get("startedAt") or "")
    return bool(text) and not text.startswith(("1970-", "0001-"))


# --- how it ended


def _ended(status: Json, main: Json, metadata: Json) -> Ended | None:
    """The end of the pod, or of its command while the pod's own is yet to be noted."""
    terminated = (main.get("state") or {}).get("terminated")
    if status.get("phase") not in ("Failed", "Succeeded") and not terminated:
        return None
    exit_ = _thrown_out(status, main) or _command_exit(terminated) or _init_exit(status)
    at = _time((terminated or {}).get("finishedAt")) or _last_change(status, metadata)
    return Ended(at, exit_ or _silent_exit(status, main))


def _last_change(status: Json, metadata: Json) -> datetime:
    times = [condition.get("lastTransitionTime") for condition in status.get("conditions") or ()]
    known = [str(time) for time in times if time]
    return parse_rfc3339(max(known) if known else str(status.get("startTime") or metadata["creationTimestamp"]))


def _thrown_out(status: Json, main: Json) -> ReplicaExit | None:
    """The pod was ended, or not taken, as a whole."""
    reason, said = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason.startswith("OutOf") or reason in _NODE_REFUSALS:
        message = f"its node did not take it, since others hold what it needs there ({_told(reason, said)})"
        return ReplicaExit(cause="never-started", message=message, displaced=True)
    if reason in _THROWN_OUT:
        return _lost(main, f"{_THROWN_OUT[reason]} ({said or 'no reason given'})")
    disruption = _disruption(status)
    return _lost(main, disruption) if disruption and not _succeeded(main) else None


def _succeeded(main: Json) -> bool:
    return ((main.get("state") or {}).get("terminated") or {}).get("exitCode") == 0


def _lost(main: Json, message: str) -> ReplicaExit:
    return ReplicaExit(cause="lost" if _started_at(main) else "never-started", message=message)


def _command_exit(terminated: Json | None) -> ReplicaExit | None:
    if terminated is None:
        return None
    if not _was_started(terminated):
        why = _told(str(terminated.get("reason") or ""), str(terminated.get("message") or ""))
        return ReplicaExit(cause="never-started", message=f"its container could not be started ({why})")
    code, signal = int(terminated.get("exitCode") or 0), int(terminated.get("signal") or 0)
    if terminated.get("reason") == OUT_OF_MEMORY:
        return _out_of_memory(code)
    if signal:
        return ReplicaExit(signal=signal)
    if terminated.get("reason") == "ContainerStatusUnknown":
        return ReplicaExit(cause="lost", message="its node does not know how it ended, as after a restart")
    return ReplicaExit(code=code)


def _out_of_memory(code: int) -> ReplicaExit:
    """The command itself was killed, or a process of it, after which it ended by itself."""
    certain = OutOfMemory.CERTAIN
    return (
        ReplicaExit(signal=SIGKILL, out_of_memory=certain)
        if code == KILLED
        else ReplicaExit(code=code, out_of_memory=certain)
    )


def _init_exit(status: Json) -> ReplicaExit | None:
    for container in status.get("initContainerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated") or {}
        if terminated.get("exitCode"):
            said = str(terminated.get("message") or terminated.get("reason") or "").strip()
            how = f"its init container {container.get('name')} exited with code {terminated['exitCode']}"
            return ReplicaExit(cause="never-started", message=f"{how}{f': {said}' if said else ''}")
    return None


def _silent_exit(status: Json, main: Json) -> ReplicaExit:
    """The pod is over and nothing says how its command fared."""
    if status.get("phase") == "Succeeded":
        return ReplicaExit(code=0)
    reason, said = str(status.get("reason") or ""), str(status.get("message") or "")
    return _lost(main, f"its pod failed ({_told(reason, said) or 'no reason given'})")


def _disruption(status: Json) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason, said = str(condition.get("reason") or ""), str(condition.get("message") or "")
            words = _DISRUPTIONS.get(reason, f"Kubernetes ended it ({reason})")
            return f"{words}{f' ({said})' if said else ''}"
    return ""


# --- what it waits for


def _waiting(pod: Json, main: Json) -> str:
    if (pod.get("status") or {}).get("phase") not in (None, "", "Pending"):
        return ""
    return next((words for words in _holdups(pod, main) if words), "")


def _holdups(pod: Json, main: Json) -> Iterator[str]:
    spec, status = pod["spec"], pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        yield _container_holdup(container, init=True)
    yield _container_holdup(main, init=False)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            yield f"no node can take it ({condition.get('message') or 'no reason given'})"
    if not spec.get("nodeName") and not spec.get("schedulingGates"):
        # Volcano says nothing of pods whose gang it does not let in.
        yield f"{spec.get('schedulerName') or 'its scheduler'} has chosen no node for it yet"


def _container_holdup(container: Json, *, init: bool) -> str:
    state = container.get("state") or {}
    if init and state.get("running"):
        return f"its init container {container.get('name')} is at work"
    waiting = state.get("waiting") or {}
    reason, said = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if not reason:
        return ""
    if reason in PULL_PROBLEMS:
        return f"the image {container.get('image')} cannot be pulled ({_told(reason, said)})"
    words = _WORDS.get(reason, f"its container waits ({reason})")
    return f"{words}{f' ({said})' if said else ''}"


def _told(reason: str, said: str) -> str:
    return ": ".join(filter(None, (reason, said)))


def _main_status(pod: Json) -> Json:
    """Status of the first container, which runs the command."""
    containers = pod["spec"].get("containers") or [{}]
    name = containers[0].get("name")
    statuses: list[Json] = (pod.get("status") or {}).get("containerStatuses") or []
    return next((status for status in statuses if status.get("name") == name), {})
