"""The statuses of pods as a kubelet writes them: pure functions from a pod and what happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tests.support.kubernetes.registry import timestamp
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.scripts import KILLED

Truth = Literal["True", "False"]


@dataclass(frozen=True)
class Exit:
    """How a container ended."""

    code: int
    reason: str
    message: str = ""

    @classmethod
    def of(cls, code: int) -> Exit:
        return cls(code, "Completed" if code == 0 else "Error")


class PodStatus:
    """Writes the statuses of one pod."""

    def __init__(self, pod: Json, address: str):
        self._pod = pod
        self._address = address
        self.started_at: str | None = None

    def creating(self, now: datetime) -> Json:
        waiting = "PodInitializing" if self._pod["spec"].get("initContainers") else "ContainerCreating"
        return self._status("Pending", now, self._containers({"waiting": {"reason": waiting}}), initialized="False")

    def waiting(self, now: datetime, reason: str, message: str) -> Json:
        """Pending, as the container cannot be made to run."""
        return self._status("Pending", now, self._containers({"waiting": {"reason": reason, "message": message}}))

    def running(self, now: datetime) -> Json:
        self.started_at = timestamp(now)
        running = self._containers({"running": {"startedAt": self.started_at}}, ready=True)
        return self._status("Running", now, running, ready="True")

    def ended(self, now: datetime, end: Exit) -> Json:
        phase = "Succeeded" if end.code == 0 else "Failed"
        return self._status(phase, now, self._containers({"terminated": self._terminated(now, end)}))

    def init_failed(self, now: datetime, end: Exit, container: str) -> Json:
        """Those before it have ended well, those after it wait for ever."""
        main = self._containers({"waiting": {"reason": "PodInitializing"}})
        init, state = [], {"terminated": self._terminated(now, Exit.of(0))}
        for each in self._pod["spec"]["initContainers"]:
            if each["name"] == container:
                init.append(_container(each, {"terminated": self._terminated(now, end)}, ready=False))
                state = {"waiting": {"reason": "PodInitializing"}}
            else:
                init.append(_container(each, state, ready="terminated" in state))
        return self._status("Failed", now, main, initialized="False") | {"initContainerStatuses": init}

    def never_made(self, now: datetime) -> Json:
        """Deleted before its container was made."""
        lost = {
            "exitCode": KILLED,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "startedAt": None,
            "finishedAt": None,
        }
        return self._status("Failed", now, self._containers({"terminated": lost}))

    def evicted(self, now: datetime, message: str) -> Json:
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        status = self._status(
            "Failed", now, self._containers({"terminated": self._terminated(now, Exit(KILLED, "Error"))})
        )
        status["conditions"].append({**disruption, "message": message, "lastTransitionTime": timestamp(now)})
        return status | {"reason": "Evicted", "message": message}

    def rejected(self, now: datetime, reason: str, message: str) -> Json:
        return {"phase": "Failed", "reason": reason, "message": message, "startTime": timestamp(now)}

    def _status(
        self, phase: str, now: datetime, containers: list[Json], *, ready: Truth = "False", initialized: Truth = "True"
    ) -> Json:
        said = {"Initialized": initialized, "Ready": ready, "ContainersReady": ready, "PodScheduled": "True"}
        conditions = [
            {"type": kind, "status": truth, "lastTransitionTime": timestamp(now)} for kind, truth in said.items()
        ]
        return {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": containers,
            "hostIP": self._address,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "startTime": timestamp(now),
        }

    def _containers(self, state: Json, *, ready: bool = False) -> list[Json]:
        return [_container(each, state, ready=ready) for each in self._pod["spec"]["containers"]]

    def _terminated(self, now: datetime, end: Exit) -> Json:
        message = {"message": end.message} if end.message else {}
        started = self.started_at or timestamp(now)
        return {
            "exitCode": end.code,
            "reason": end.reason,
            **message,
            "startedAt": started,
            "finishedAt": timestamp(now),
        }


def _container(container: Json, state: Json, *, ready: bool) -> Json:
    running = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "started": running,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
