from __future__ import annotations

import subprocess

from services.scheduler.engines.local.strays import end_strays
from services.scheduler.ports.reports import ReplicaRef

MARKS = {"TM_JOB_ID": "tj-strays", "TM_ATTEMPT": "1", "TM_ROLE": "worker", "TM_INDEX": "0"}


def test_what_has_the_replica_s_whole_identity_is_ended_and_nothing_else():
    mine = subprocess.Popen(["sleep", "1000"], env=MARKS, start_new_session=True)
    neighbour = subprocess.Popen(["sleep", "1000"], env=MARKS | {"TM_INDEX": "1"})

    assert end_strays(ReplicaRef("tj-strays", 1, "worker", 0, "n")) == 1

    assert mine.wait(10) == -9
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait()
