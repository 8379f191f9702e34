"""Records of gangs as somebody may have spoilt them."""

from __future__ import annotations

import json
from typing import Any

from services.scheduler.engines.kubernetes.objects.zipped import zipped


def packed_record(parts: dict[str, Any]) -> str:
    """What a record holds, with these parts in place of right ones."""
    right = {"job": "tj-a", "attempt": 1, "roles": [], "graceS": 1.0}
    return zipped(json.dumps({**right, **parts}))
