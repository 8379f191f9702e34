"""Python client of a Trainmaster platform, and the `trainmaster` command built on it.

    import trainmaster
    with trainmaster.Client("http://127.0.0.1:8080", token) as client:
        applied = client.apply(document)
        for chunk in client.follow_logs(applied.name): ...

It talks HTTP and JSON only. Names are loaded on first use, so that the command need not load the HTTP library to start.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trainmaster.client import Client
    from trainmaster.documents import Job, JobEvent, LogChunk
    from trainmaster.errors import TrainmasterError

__version__: Final = "0.1.0"
__all__ = ["Client", "Job", "JobEvent", "LogChunk", "TrainmasterError", "__version__"]

_HOME_OF: Final = {
    "Client": "trainmaster.client",
    "Job": "trainmaster.documents",
    "JobEvent": "trainmaster.documents",
    "LogChunk": "trainmaster.documents",
    "TrainmasterError": "trainmaster.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trainmaster' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
