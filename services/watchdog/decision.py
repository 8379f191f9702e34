"""Whether there will be another attempt, judged from the job alone: pure, so that a repeat comes out the same.

Retries cannot be asked for yet, so the answer is always no; the reason is how the attempt ended, in words, with a
stable code beside it (`root_cause`) and what the other replicas that failed said. A decision is due only in Deciding:
an attempt that completed or was stopped raises no question, and one that is decided is not decided twice.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Final

from shared.events import AttemptEnded, EndReason, OutOfMemory, ReplicaExit, ReplicaRef, RetryDecided
from shared.jobs import Attempt, Job, JobState, Replica

MAX_OTHERS: Final = 20
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


def decide(job: Job) -> RetryDecided | None:
    """The decision that the job waits for; None where it waits for none."""
    attempt = job.attempt
    due = job.state is JobState.DECIDING and attempt.decision is None and attempt.ended is not None
    if not due or attempt.ended is None or attempt.ended.reason is EndReason.COMPLETED:
        return None
    return RetryDecided(
        retry=False,
        reason=f"{_how_it_ended(attempt.ended)}; the job asks for no retries",
        root_cause=_root_cause(attempt.ended),
        replica=attempt.ended.first_failure,
        others=_others(attempt, attempt.ended.first_failure),
    )


def describe(exit_status: ReplicaExit) -> str:
    """How a replica ended, to follow its name: `ended with exit code 3`."""
    if exit_status.cause in ("lost", "never-started"):
        what = "was lost" if exit_status.cause == "lost" else "could not be started"
        return f"{what}: {exit_status.message}" if exit_status.message else what
    return _how_it_died(exit_status) + _memory_words(exit_status.out_of_memory)


def _how_it_ended(ended: AttemptEnded) -> str:
    if ended.first_failure is not None and ended.exit is not None:
        return f"{_name(ended.first_failure)} {describe(ended.exit)}"
    return ended.message or _WORDS_OF_REASON.get(ended.reason, ended.reason)


def _how_it_died(exit_status: ReplicaExit) -> str:
    if exit_status.signal is not None:
        return f"was ended by {_signal_name(exit_status.signal)}"
    if exit_status.code is None:
        return "ended without an exit status"
    hint = _shell_hint(exit_status.code)
    return f"ended with exit code {exit_status.code}" + (f" ({hint})" if hint else "")


def _shell_hint(code: int) -> str:
    if _SHELL_SIGNAL_BASE < code <= _SHELL_SIGNAL_BASE + signal.SIGRTMAX:
        return f"as a shell reports a process that was ended by {_signal_name(code - _SHELL_SIGNAL_BASE)}"
    return _SHELL_CODES.get(code, "")


def _memory_words(out_of_memory: OutOfMemory) -> str:
    match out_of_memory:
        case OutOfMemory.CERTAIN:
            return ", out of memory"
        case OutOfMemory.SUSPECTED:
            return ", perhaps out of memory"
    return ""


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _root_cause(ended: AttemptEnded) -> str:
    exit_status = ended.exit
    if exit_status is None:
        return ended.reason
    if exit_status.out_of_memory is OutOfMemory.CERTAIN:
        return "out-of-memory"
    if exit_status.cause in ("lost", "never-started"):
        return exit_status.cause
    return "signal" if exit_status.signal is not None else "exit-code"


def _others(attempt: Attempt, first: ReplicaRef | None) -> tuple[str, ...]:
    """What the other failed replicas said, the first twenty of them."""
    failed = sorted(_failed_beside(attempt, first), key=lambda replica: (replica.role, replica.index))
    said = [f"{replica.role}-{replica.index} {describe(replica.exit or ReplicaExit())}" for replica in failed]
    more = len(said) - MAX_OTHERS
    return (*said[:MAX_OTHERS], f"and {more} more") if more > 0 else tuple(said)


def _failed_beside(attempt: Attempt, first: ReplicaRef | None) -> Iterator[Replica]:
    for replica in attempt.replicas.values():
        is_first = first is not None and (replica.role, replica.index) == (first.role, first.index)
        if replica.state == "Failed" and not is_first:
            yield replica


def _name(replica: ReplicaRef) -> str:
    return f"{replica.role}-{replica.index}"
