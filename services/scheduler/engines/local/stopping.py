"""How a gang is stopped: durable first, then told, so that a crash in between loses no stop.

The gang's own `stop` keeps further replicas from being started. What never ran is written down as ended; a runner finds
its request in the replica's `stop`, whether it is told by the control FIFO or comes to look for itself at its start.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from services.scheduler.engines.local import replica_state
from services.scheduler.engines.local.files import write_in_place
from services.scheduler.engines.local.gang_dir import GangDir, ReplicaDir, StopRequest
from shared.clock import Clock


def stop_gang(gang_dir: GangDir, grace_s: float, clock: Clock) -> None:
    """Ask every replica to end, and write down the end of those that never started."""
    gang_dir.request_stop(StopRequest(grace_s))
    for replica in gang_dir.replicas.values():
        replica.path.mkdir(exist_ok=True)
        message = "the gang was stopped before it was started"
        if not replica_state.conclude(replica, "never-started", message, clock):
            _tell_runner(replica, grace_s)


def _tell_runner(replica: ReplicaDir, grace_s: float) -> None:
    write_in_place(replica.stop, json.dumps({"grace_s": grace_s}))
    with suppress(OSError):  # nobody listens: the runner has ended, or will read the file when it starts
        control = os.open(replica.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.write(control, b"!")
        os.close(control)
