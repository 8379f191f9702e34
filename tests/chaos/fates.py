"""What may become of a job of the chaos suite: one line a fate, with the only right end of it.

A job's command keeps its own account on a mount, independent of the platform: for every replica of every attempt a
file of times (`start` and `end`, in nanoseconds) and a copy of what it printed. A fate that this version refuses at
submission (`not-yet-available`) is left out, and takes part as soon as it is accepted.

A replica that the kernel kills for its memory needs a memory group. Where none can be made, unlimited memory would be
the whole machine's: a replica that is refused memory, which is no kill and must not be told as one, takes that place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from services.scheduler.engines.local.memory_groups import find_memory_groups
from shared.errors import InvalidInputError
from shared.jobspec.validation import validate_job
from tests.support.platform import job_document

SCRATCH: Final = {"type": "storage", "source": "scratch", "mountPath": "/mnt/data"}

# `note` appends to the account of this replica; the work's own output goes to the log and to the account.
_COMMAND: Final = """
set -o pipefail
account=/mnt/data/$TM_JOB_NAME.$TM_ATTEMPT.$RANK
note() {{ echo "$1 $(date +%s%N)" >> $account.times; }}
trap '[ -e $account.times ] || note start; note end; exit 143' TERM
note start
{{ {work}
}} 2>&1 | tee $account.log &
wait $!
code=$?
note end
{last}
exit $code
"""
_CHATTY: Final = 'for i in $(seq 1 400); do echo "$TM_JOB_NAME $RANK line $i"; sleep 0.01; done'
_STEADY: Final = 'for i in $(seq 1 20); do echo "$TM_JOB_NAME $RANK $i"; sleep 0.15; done'
_BULK: Final = "for i in 1 2 3; do head -c 700000 /dev/urandom | base64; sleep 0.5; done"
_BARS: Final = r"for i in $(seq 1 200); do printf '\r%d' $i; sleep 0.01; done"
# Twice the memory of a replica in one line, which `tail` must hold whole.
_HUNGRY: Final = "echo hungry; head -c 512M /dev/zero | tail -n 1 > /dev/null"
_FAILURE: Final = {"policy": "OnFailure"}


@dataclass(frozen=True)
class Fate:
    """A kind of job; `attempts` are those that the retry policy gives, `weight` how often it comes."""

    name: str
    work: str
    end: str = "Succeeded"
    attempts: int = 1
    replicas: int = 1
    last: str = ""
    stopped: bool = False
    whole_log: bool = True
    out_of_memory: bool = False
    weight: int = 1
    spec: Mapping[str, Any] = field(default_factory=dict)

    def document(self, name: str) -> dict[str, Any]:
        """The job as it is submitted."""
        command = _COMMAND.format(work=self.work, last=self.last)
        return job_document(name, command, replicas=self.replicas, mounts=[SCRATCH], **self.spec)


_OUT_OF_MEMORY: Final = Fate(
    "out-of-memory",
    _HUNGRY,
    "Failed",
    attempts=2,
    out_of_memory=True,
    spec={"retry": {"maxRetries": 1, "on": {"failure": {"policy": "Advanced", "exitCodes": [137]}}}},
    weight=2,
)
_MEMORY_REFUSED: Final = Fate("memory-refused", f"ulimit -v 262144; {_HUNGRY}", "Failed", weight=2)
_HAS_MEMORY_GROUPS: Final = find_memory_groups() is not None

_ALL: Final = (
    Fate("quick", "echo done", weight=3),
    Fate("chatty", _CHATTY, weight=3),
    Fate("steady", _STEADY, weight=2),
    Fate("bulk", _BULK),
    Fate("bars", _BARS),
    Fate("silent", "sleep 2"),
    Fate("pair", _STEADY, replicas=2, weight=2),
    Fate("trio", _CHATTY, replicas=3),
    Fate("fails", "sleep 1; echo bad; exit 5", "Failed", weight=2),
    Fate("one-of-two-fails", "sleep 1; echo $RANK; [ $RANK = 0 ]", "Failed", replicas=2, whole_log=False),
    Fate("killed", "sleep 1; echo last words", "Failed", last="kill -9 $$"),
    Fate("stopped", "sleep 300", "Stopped", stopped=True, whole_log=False, weight=2),
    Fate("pair-stopped", "sleep 300", "Stopped", replicas=2, stopped=True, whole_log=False),
    Fate("diagnosed", _STEADY, spec={"diagnosis": {"enabled": True}}, weight=2),
    Fate(
        "third-time-lucky",
        "sleep 0.5; echo $TM_ATTEMPT; [ $TM_ATTEMPT = 3 ]",
        attempts=3,
        spec={"retry": {"maxRetries": 4, "interval": "1s", "on": {"failure": _FAILURE}}},
        weight=2,
    ),
    Fate(
        "never-lucky",
        "sleep 0.5; echo $TM_ATTEMPT; exit 3",
        "Failed",
        attempts=3,
        replicas=2,
        whole_log=False,
        spec={"retry": {"maxRetries": 2, "on": {"failure": _FAILURE}}},
    ),
    Fate(
        "hangs",
        "echo quiet now; sleep 300",
        "Failed",
        attempts=2,
        whole_log=False,
        spec={
            "hangDetection": {"enabled": True, "silence": "8s"},
            "retry": {"maxRetries": 1, "on": {"hang": True}},
        },
    ),
    _OUT_OF_MEMORY if _HAS_MEMORY_GROUPS else _MEMORY_REFUSED,
)


def _is_available(fate: Fate) -> bool:
    try:
        validate_job(fate.document("probe"))
    except InvalidInputError as error:
        if any(violation.code != "not-yet-available" for violation in error.violations):
            raise
        return False
    return True


FATES: Final = tuple(fate for fate in _ALL if _is_available(fate))
REPLACED: Final = (
    "" if _HAS_MEMORY_GROUPS else f"no memory group can be made here: {_MEMORY_REFUSED.name} for {_OUT_OF_MEMORY.name}"
)
