"""The seven preset rows of the `Advanced` policy, as the documentation of the platform shows them.

They are matched as written: the fragments of a row must all stand on one line, upper and lower case as they are here.
Rows for what newer libraries print belong into the catalogue, not here.
"""

from __future__ import annotations

from typing import Final

from services.watchdog.domain.matching import LineRule

PRESETS: Final = (
    LineRule("preset/dist-backend-error", ("torch.distributed.DistBackendError",)),
    LineRule(
        "preset/nccl-remote-error",
        ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely",),
    ),
    LineRule("preset/nccl-connection-closed", ("socketProgress: Connection closed by remote peer",)),
    LineRule("preset/gloo-connect", ("RuntimeError: Gloo connectFullMesh failed with",)),
    LineRule(
        "preset/ib-queue-pair-timeout", ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",)
    ),
    LineRule(
        "preset/nccl-connection-reset", ("socketProgressOpt: Call to recv from", "failed : Connection reset by peer")
    ),
    LineRule("preset/collective-timeout", ("Watchdog caught collective operation timeout", "WorkNCCL")),
)
