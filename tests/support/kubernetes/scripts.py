"""What a simulated kubelet makes of a pod: how its containers come up, how long they run and how they end.

A test gives the kubelet a function from pods to scripts, or writes the script into the pod's annotation `SCRIPT` as
JSON with the fields of `PodScript`. Without either a pod starts at once and runs until it is deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.support.kubernetes.resources import Json

SCRIPT: Final = "tests.trainmaster/script"
KILLED: Final = 137
TERMINATED: Final = 143


@dataclass(frozen=True)
class PodScript:
    """The life of one pod. What is `None` or empty does not happen."""

    pull_error: str = ""
    """The image cannot be had: the pod stays Pending with ErrImagePull, then ImagePullBackOff, and this message."""
    rejected: str = ""
    """The kubelet does not take it: the pod fails with this reason, such as OutOfcpu."""
    init_exit_code: int | None = None
    """How the first init container ends; the pod fails unless that is 0."""
    start_s: float = 0.0
    """Pending for so long before the containers run."""
    run_s: float | None = None
    """Runs for so long; `None` is until it is deleted."""
    exit_code: int = 0
    signal: int | None = None
    """Ended by this signal: the exit code is 128 more, as container runtimes have it."""
    oom_killed: bool = False
    evicted: str = ""
    """Evicted with this message when it has run for its time."""
    stop_s: float = 0.0
    """How long it goes on after its TERM; more than its grace is cut short by a KILL."""
    stop_exit_code: int = TERMINATED


def annotated(pod: Json) -> PodScript:
    """The script in the pod's annotation."""
    written = (pod["metadata"].get("annotations") or {}).get(SCRIPT)
    return PodScript(**json.loads(written)) if written else PodScript()


def annotation(script: PodScript) -> dict[str, str]:
    """The annotation that says it."""
    return {
        SCRIPT: json.dumps({key: value for key, value in vars(script).items() if value != getattr(PodScript(), key)})
    }
