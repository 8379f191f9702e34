"""What became of a replica, from all that is known of it: the gang's phase, its pod, or the last that was seen of that.

A pod that is gone has either told how it ended before, or was stopped by us, or has vanished; a pod that is there may
have been lost with its node. Nothing is concluded from a pod that is missing before its gang was released, since it may
yet be made, nor before a list that was asked for after the release has come without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from services.scheduler.engines.kubernetes.gangs import GangSeen
from services.scheduler.engines.kubernetes.pods import Ended, PodSeen
from shared.events import ReplicaExit

# Times of nodes and of the API server differ by a little, and are whole seconds.
_CLOCKS_DIFFER: Final = timedelta(seconds=2)
_DELETED: Final = "somebody deleted its pod"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a replica stands; nothing set: nothing is known yet."""

    started_at: datetime | None = None
    ended: Ended | None = None
    waiting: str = ""


@dataclass(frozen=True, slots=True)
class NodeLoss:
    """A node of which nothing was heard for too long."""

    node: str
    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class LastSeen:
    """A pod that is gone: how it was last, and since when it is gone."""

    pod: PodSeen
    at: datetime


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one replica; `listed` once a list from after the gang's release has come."""

    pod: PodSeen | None = None
    gone: LastSeen | None = None
    noted: Ended | None = None
    loss: NodeLoss | None = None
    listed: bool = False


def verdict(gang: GangSeen, evidence: Evidence, now: datetime) -> Verdict:
    """What became of the replica."""
    pod, gone = evidence.pod, evidence.gone
    if evidence.noted is not None:
        return Verdict(_started(pod or (gone.pod if gone else None)), evidence.noted)
    if pod is not None:
        return _of_pod(gang, pod, evidence.loss)
    if gone is not None and (gang.released_at is not None or gang.is_stopping):
        return _of_gone(gang, gone)
    return _of_missing(gang, now, listed=evidence.listed)


def _started(pod: PodSeen | None) -> datetime | None:
    return pod.started_at if pod is not None else None


def _of_pod(gang: GangSeen, pod: PodSeen, loss: NodeLoss | None) -> Verdict:
    if pod.ended is not None:
        return Verdict(pod.started_at, _judged(gang, pod, pod.ended))
    if loss is not None:
        cause = "lost" if pod.started_at else "never-started"
        message = f"its node {loss.node} was lost ({loss.why})"
        return Verdict(pod.started_at, Ended(loss.at, ReplicaExit(cause=cause, message=message)))
    # What a kubelet says of a pod that it is about to end hides what the pod waited for.
    return Verdict(pod.started_at, waiting="" if pod.started_at or pod.deleted_at else pod.waiting)


def _judged(gang: GangSeen, pod: PodSeen, ended: Ended) -> Ended:
    """An end that followed a deletion is nobody's own doing but of who deleted the pod.

    Where only the kubelet's last deletion was seen, which comes after the end, that of a stop is known from the record.
    """
    if pod.deleted_at is None or ended.exit.displaced:
        return ended
    if ended.at + _CLOCKS_DIFFER < min(pod.deleted_at, gang.stopped_at or pod.deleted_at):
        return ended
    if ended.exit.cause == "never-started":
        # A kubelet says of a container that it had not made yet that it could not be located, and gives no time.
        at = max(ended.at, gang.stopped_at or ended.at)
        return Ended(at, _unseen_exit(gang, pod))
    if ended.exit.cause != "exited":
        return ended
    if gang.is_stopping:
        return Ended(ended.at, ended.exit.model_copy(update={"cause": "stopped"}))
    message = pod.disruption or _DELETED
    return Ended(ended.at, ended.exit.model_copy(update={"cause": "lost", "message": message}))


def _of_gone(gang: GangSeen, gone: LastSeen) -> Verdict:
    pod = gone.pod
    if pod.ended is not None:
        return Verdict(pod.started_at, _judged(gang, pod, pod.ended))
    at = max(pod.deleted_at or gone.at, pod.started_at or gone.at) if pod.started_at else gone.at
    return Verdict(pod.started_at, Ended(at, _unseen_exit(gang, pod)))


def _unseen_exit(gang: GangSeen, pod: PodSeen) -> ReplicaExit:
    if pod.started_at is None:
        message = "the gang was stopped before it was started" if gang.is_stopping else pod.disruption or _DELETED
        return ReplicaExit(cause="never-started", message=message)
    if gang.is_stopping:
        return ReplicaExit(cause="stopped", message="its pod was removed before it told how it ended")
    return ReplicaExit(cause="lost", message=f"its pod vanished: {pod.disruption or _DELETED}")


def _of_missing(gang: GangSeen, now: datetime, *, listed: bool) -> Verdict:
    """There is no pod, and this process has never seen one."""
    if gang.is_stopping and gang.released_at is None:
        exit_ = ReplicaExit(cause="never-started", message="the gang was stopped before it was started")
        return Verdict(ended=Ended(gang.stopped_at or now, exit_))
    if not listed:
        return Verdict()
    if gang.is_stopping:
        exit_ = ReplicaExit(cause="stopped", message="it was stopped, and how it ended was not seen")
        return Verdict(ended=Ended(gang.stopped_at or now, exit_))
    return Verdict(ended=Ended(now, ReplicaExit(cause="lost", message="its pod vanished while nobody watched")))
