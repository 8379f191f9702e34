"""What the engine knows of the end of an attempt, as causes with a class: `fact/…`.

Some facts decide whatever the logs say: the platform lost or took the machine, memory ran out for certain, the command
does not exist. Others only say that a process died, and count where the logs name no original error.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from services.watchdog.domain.rules import FailureClass
from services.watchdog.domain.wording import exit_code
from shared.events import AttemptEnded, EndReason, OutOfMemory, ReplicaExit

_SHELL_SIGNAL_BASE: Final = 128


@dataclass(frozen=True, slots=True)
class Fact:
    """A cause that needs no log; `decides`: whatever the logs say. `by_platform`: nothing that the job did."""

    rule: str
    failure_class: FailureClass
    advice: str
    decides: bool = False
    by_platform: bool = False


_OF_REASON: Final = {
    EndReason.PREEMPTED: Fact(
        "fact/preempted",
        FailureClass.INFRASTRUCTURE,
        "The platform needed the machines for a job of higher priority.",
        decides=True,
        by_platform=True,
    ),
    EndReason.PLATFORM: Fact(
        "fact/platform",
        FailureClass.INFRASTRUCTURE,
        "The platform lost the replicas; it was nothing that the job did.",
        decides=True,
        by_platform=True,
    ),
    EndReason.START_TIMEOUT: Fact(
        "fact/start-timeout",
        FailureClass.AMBIGUOUS,
        "Not all replicas ran in time. See what keeps them from starting, or give a longer startTimeout.",
        decides=True,
    ),
    EndReason.MAX_RUN_TIME: Fact(
        "fact/max-run-time",
        FailureClass.USER,
        "The attempt used up its maxRunTime. Give it more, or let it resume from a checkpoint under OnFailure.",
        decides=True,
    ),
}
_OUT_OF_MEMORY: Final = Fact(
    "fact/out-of-memory",
    FailureClass.USER,
    "The replica used more memory than its instance type has. Choose a larger one, or use fewer workers.",
    decides=True,
)
_NEVER_STARTED: Final = Fact(
    "fact/never-started",
    FailureClass.AMBIGUOUS,
    "A replica could not be started; the message says why.",
    decides=True,
)
_OF_CODE: Final = {
    126: Fact(
        "fact/not-executable",
        FailureClass.USER,
        "The start command names a file that may not be executed. Check its rights, or name the interpreter.",
        decides=True,
    ),
    127: Fact(
        "fact/command-not-found",
        FailureClass.USER,
        "The start command names a program that is not there. Check its spelling and the image.",
        decides=True,
    ),
}
_OF_SIGNAL: Final[dict[int, Fact]] = {
    signal.SIGINT: Fact(
        "fact/sigint", FailureClass.USER, "Somebody or something inside of the job interrupted it (SIGINT)."
    ),
    signal.SIGTERM: Fact(
        "fact/sigterm",
        FailureClass.INFRASTRUCTURE,
        "Something other than the platform ended the replica (SIGTERM), as when a machine is reclaimed.",
    ),
    signal.SIGKILL: Fact(
        "fact/sigkill",
        FailureClass.AMBIGUOUS,
        "Something other than the platform killed the replica (SIGKILL); memory that ran out is the usual reason.",
    ),
    signal.SIGSEGV: Fact(
        "fact/sigsegv", FailureClass.AMBIGUOUS, "The replica crashed in native code (SIGSEGV) and printed no error."
    ),
    signal.SIGBUS: Fact(
        "fact/sigbus",
        FailureClass.USER,
        "The replica was killed by SIGBUS: shared memory is too small, or a mapped file became shorter.",
    ),
    signal.SIGABRT: Fact(
        "fact/sigabrt",
        FailureClass.AMBIGUOUS,
        "The replica aborted itself (SIGABRT) and printed no error that is known.",
    ),
}


def fact_of(ended: AttemptEnded) -> Fact | None:
    """What the way in which the attempt ended says; None where it says nothing, as a plain exit code does."""
    of_reason = _OF_REASON.get(ended.reason)
    if of_reason is not None or ended.exit is None:
        return of_reason
    return fact_of_exit(ended.exit)


def fact_of_exit(exit_status: ReplicaExit) -> Fact | None:
    """What the end of a replica says by itself."""
    if exit_status.out_of_memory is OutOfMemory.CERTAIN:
        return _OUT_OF_MEMORY
    if exit_status.cause == "never-started":
        return _NEVER_STARTED
    code = exit_code(exit_status)
    if code is None:
        return None
    return _OF_CODE.get(code) or (_OF_SIGNAL.get(code - _SHELL_SIGNAL_BASE) if code > _SHELL_SIGNAL_BASE else None)
