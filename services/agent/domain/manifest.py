"""`ship.json`: what the engine tells the agent about a replica before it starts it.

The keys are `job`, `attempt`, `role`, `index`, `node`, `started_at`, `log` (relative to the replica's directory) and
`tensorboard`: null, or the host's directory whose event files belong to this attempt as far as they were written since
`started_at`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from shared.errors import TrainmasterError
from shared.logs_wire import ReplicaRef


class ManifestError(TrainmasterError):
    """A `ship.json` that cannot be read."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is to be shipped of one replica."""

    replica: ReplicaRef
    node: str
    started_at_s: float
    log: str
    tensorboard: str | None


def parse_manifest(text: str) -> Manifest:
    """The manifest in the text; raises ManifestError with what is wrong."""
    try:
        given = json.loads(text)
        replica = ReplicaRef(str(given["job"]), int(given["attempt"]), str(given["role"]), int(given["index"]))
        return Manifest(
            replica=replica,
            node=str(given["node"]),
            started_at_s=datetime.fromisoformat(given["started_at"]).timestamp(),
            log=str(given["log"]),
            tensorboard=given.get("tensorboard"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"ship.json cannot be read: {type(error).__name__}: {error}") from error
