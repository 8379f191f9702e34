"""What the ConfigMap of a gang says of it: its replicas, and how far it is.

A gang is `creating` until all of its pods are there, then `released`: from then on its pods may run, and one that is
missing is never made again. `stopping` and `forgotten` follow. How replicas ended whose pods are gone is noted here
too, so that it is known also to a scheduler that starts later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pydantic import TypeAdapter

from services.scheduler.engines.kubernetes.objects.record import CREATING, FORGOTTEN, STOPPING, GangRecord
from services.scheduler.engines.kubernetes.objects.zipped import unzipped, zipped
from services.scheduler.engines.kubernetes.pods import Ended
from services.scheduler.ports.reports import ReplicaRef
from shared.clock import parse_rfc3339, rfc3339
from shared.events import ReplicaExit
from shared.ids import GangId
from shared.kubernetes.documents import Json
from shared.kubernetes.names import PHASE_ANNOTATION, PREFIX

Key = tuple[str, int]

# Tells the ConfigMap that is a gang's record from those that only hold something for its pods.
RECORD_LABEL: Final = f"{PREFIX}record"
RECORD_LABEL_VALUE: Final = "gang"
RELEASED_AT: Final = f"{PREFIX}released-at"
STOPPED_AT: Final = f"{PREFIX}stopped-at"
FORGOTTEN_AT: Final = f"{PREFIX}forgotten-at"
KEEP_UNTIL: Final = f"{PREFIX}keep-until"
EXITS_KEY: Final = "exits.json.gz"
_PLAIN_EXITS_KEY: Final = "exits.json"
"""Of records that were written before ends were compressed."""

_EXIT: Final = TypeAdapter(ReplicaExit)


@dataclass(frozen=True, slots=True)
class GangSeen:
    """A gang as its record says; `version` grows with every change of it."""

    id: GangId
    namespace: str
    uid: str
    version: int
    phase: str
    replicas: Mapping[Key, ReplicaRef]
    released_at: datetime | None = None
    stopped_at: datetime | None = None
    forgotten_at: datetime | None = None
    keep_until: datetime | None = None
    noted: Mapping[Key, Ended] = field(default_factory=dict)

    @property
    def is_creating(self) -> bool:
        """Whether its pods are still to be made."""
        return self.phase == CREATING

    @property
    def is_stopping(self) -> bool:
        """Whether its end was asked for."""
        return self.phase in (STOPPING, FORGOTTEN)

    @property
    def is_forgotten(self) -> bool:
        """Whether every end is on record with whoever asked for the gang."""
        return self.phase == FORGOTTEN


def gang_seen(config_map: Json) -> GangSeen | None:
    """What matters of the record of a gang; None where it is none that can be read, or a copy under another name."""
    metadata = config_map["metadata"]
    notes = metadata.get("annotations") or {}
    try:
        record = GangRecord.read(dict(config_map))
    except ValueError:
        return None
    if record.gang != metadata["name"]:
        return None
    times = {name: _time(notes.get(name)) for name in (RELEASED_AT, STOPPED_AT, FORGOTTEN_AT, KEEP_UNTIL)}
    return GangSeen(
        id=record.gang,
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        phase=phase_of(config_map),
        replicas={(ref.role, ref.index): ref for ref in record.replicas},
        released_at=times[RELEASED_AT],
        stopped_at=times[STOPPED_AT],
        forgotten_at=times[FORGOTTEN_AT],
        keep_until=times[KEEP_UNTIL],
        noted=_noted(config_map),
    )


def phase_of(config_map: Json) -> str:
    """How far the gang is, also where nothing else of its record can be read."""
    return str((config_map["metadata"].get("annotations") or {}).get(PHASE_ANNOTATION) or CREATING)


def exits_data(exits: Mapping[Key, Ended]) -> str:
    """How replicas ended, as the record holds it: most of many thousands end alike, and have no room in words."""
    rows = [
        [role, index, rfc3339(end.at), end.exit.model_dump(mode="json", exclude_defaults=True)]
        for (role, index), end in exits.items()
    ]
    return zipped(json.dumps(rows, separators=(",", ":")))


def _noted(config_map: Json) -> dict[Key, Ended]:
    """Ends that are noted; notes that somebody has spoilt are none."""
    plain = (config_map.get("data") or {}).get(_PLAIN_EXITS_KEY) or "[]"
    data = (config_map.get("binaryData") or {}).get(EXITS_KEY)
    try:
        rows = [*json.loads(plain), *json.loads(unzipped(data) if data else "[]")]
        return {(role, index): Ended(parse_rfc3339(at), _EXIT.validate_python(end)) for role, index, at, end in rows}
    except (ValueError, TypeError, RecursionError):
        return {}


def _time(text: str | None) -> datetime | None:
    """The time in an annotation, or the beginning of all times where somebody has spoilt it."""
    try:
        return parse_rfc3339(text) if text else None
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
