"""Objects of an API server, as plain JSON: its client's models cost several times as much to read and to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
