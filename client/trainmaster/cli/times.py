"""Points in time on the command line: RFC 3339, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_AGO = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


class PointInTime(click.ParamType[str]):
    """Gives RFC 3339."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The time that the text means; fails with what would be one."""
        text = str(value)
        ago = _AGO.fullmatch(text)
        if ago is not None:
            days, hours, minutes, seconds = (int(group or 0) for group in ago.groups())
            return _written(datetime.now(UTC) - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no time; write 2026-01-31T12:00:00Z, or how long ago: 90s, 2h30m, 3d", param, ctx)
        return _written(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
