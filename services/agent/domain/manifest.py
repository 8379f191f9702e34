"""`ship.json`: what the engine tells the agent about a replica before it starts it.

The keys are `job`, `attempt`, `role`, `index`, `node`, `started_at`, `log` (relative to the replica's directory) and
`tensorboard`: null, or the host's directory whose event files belong to this attempt as far as they were written since
`started_at`. `tensorboard_root` may name the directory above it that the platform trusts, such as the source of a
mount: below it, where user code writes, no link is followed. Without it `tensorboard` itself is trusted. `checkpoints`
and `checkpoints_root` are the same for the directory in which the attempt saves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from shared.errors import TrainmasterError
from shared.logs_wire import ReplicaRef


class ManifestError(TrainmasterError):
    """A `ship.json` that cannot be read."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """Where user code writes: a trusted directory, and the way from there, which may be `.`."""

    root: PurePosixPath
    below: PurePosixPath


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is to be shipped of one replica."""

    replica: ReplicaRef
    node: str
    started_at_s: float
    log: str
    tensorboard: WrittenDirectory | None
    checkpoints: WrittenDirectory | None = None


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
            tensorboard=_directory(given.get("tensorboard"), given.get("tensorboard_root")),
            checkpoints=_directory(given.get("checkpoints"), given.get("checkpoints_root")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"ship.json cannot be read: {type(error).__name__}: {error}") from error


def _directory(path: str | None, root: str | None) -> WrittenDirectory | None:
    if path is None:
        return None
    trusted = PurePosixPath(root or path)
    return WrittenDirectory(trusted, PurePosixPath(path).relative_to(trusted))
