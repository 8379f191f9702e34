"""Records of gangs as somebody may have spoilt them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def packed_record(parts: dict[str, Any]) -> str:
    """What a record holds, with these parts in place of right ones."""
    right = {"job": "tj-a", "attempt": 1, "roles": [], "graceS": 1.0}
    return base64.b64encode(gzip.compress(json.dumps({**right, **parts}).encode(), mtime=0)).decode()
