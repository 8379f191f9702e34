"""How ends are told: sentences about attempts and replicas, and the stable code of what ended an attempt."""

from __future__ import annotations

import signal
from typing import Final

from shared.events import AttemptEnded, EndReason, OutOfMemory, ReplicaExit, ReplicaRef
from shared.jobs import Attempt
from shared.signals import signal_words

ROOT_CAUSES: Final = (
    "exit-code",
    "signal",
    "out-of-memory",
    "lost",
    "never-started",
    *(reason for reason in EndReason if reason not in (EndReason.COMPLETED, EndReason.STOPPED)),
)
_SHELL_SIGNAL_BASE: Final = 128
_SHELL_CODES: Final = {
    126: "as a shell reports a command that it found but may not run",
    127: "as a shell reports a command that it did not find",
}
_WORDS_OF_REASON: Final = {
    EndReason.FAILED: "a replica failed",
    EndReason.DIAGNOSIS: "the diagnosis of the nodes failed",
    EndReason.HANG: "the job hung",
    EndReason.START_TIMEOUT: "not every replica ran within startTimeout",
    EndReason.MAX_RUN_TIME: "the attempt ran for its maxRunTime",
    EndReason.PREEMPTED: "the attempt was preempted",
    EndReason.PLATFORM: "the platform ended the attempt",
}


def called(node: str | None, attempt: Attempt) -> str:
    """A node of the attempt as people call it."""
    return next((each.where for each in attempt.replicas.values() if each.node == node), node or "")


def how_it_ended(ended: AttemptEnded) -> str:
    """The end of an attempt in words: `worker-0 ended with exit code 3`."""
    if ended.first_failure is not None and ended.exit is not None:
        return f"{name_of(ended.first_failure)} {describe(ended.exit)}"
    return ended.message or _WORDS_OF_REASON.get(ended.reason, ended.reason)


def describe(exit_status: ReplicaExit) -> str:
    """How a replica ended, to follow its name: `ended with exit code 3`."""
    if exit_status.cause in ("lost", "never-started"):
        what = "was lost" if exit_status.cause == "lost" else "could not be started"
        return f"{what}: {exit_status.message}" if exit_status.message else what
    return _how_it_died(exit_status) + _memory_words(exit_status.out_of_memory)


def name_of(replica: ReplicaRef) -> str:
    """`worker-0`."""
    return f"{replica.role}-{replica.index}"


def end_code(ended: AttemptEnded) -> str:
    """What ended the attempt, as one of `ROOT_CAUSES`."""
    exit_status = ended.exit
    if exit_status is None:
        return ended.reason
    if exit_status.out_of_memory is OutOfMemory.CERTAIN:
        return "out-of-memory"
    if exit_status.cause in ("lost", "never-started"):
        return exit_status.cause
    return "signal" if exit_status.signal is not None else "exit-code"


def exit_code(exit_status: ReplicaExit) -> int | None:
    """The code that users list: that of the command, or 128 + the signal that ended it, as shells and Kubernetes do."""
    if exit_status.cause != "exited":
        return None
    return exit_status.code if exit_status.signal is None else _SHELL_SIGNAL_BASE + exit_status.signal


def _how_it_died(exit_status: ReplicaExit) -> str:
    if exit_status.signal is not None:
        return f"was ended by {signal_words(exit_status.signal)}"
    if exit_status.code is None:
        return "ended without an exit status"
    hint = _shell_hint(exit_status.code)
    return f"ended with exit code {exit_status.code}" + (f" ({hint})" if hint else "")


def _shell_hint(code: int) -> str:
    if _SHELL_SIGNAL_BASE < code <= _SHELL_SIGNAL_BASE + signal.SIGRTMAX:
        return f"as a shell reports a process that was ended by {signal_words(code - _SHELL_SIGNAL_BASE)}"
    return _SHELL_CODES.get(code, "")


def _memory_words(out_of_memory: OutOfMemory) -> str:
    match out_of_memory:
        case OutOfMemory.CERTAIN:
            return ", out of memory"
        case OutOfMemory.SUSPECTED:
            return ", perhaps out of memory"
    return ""
