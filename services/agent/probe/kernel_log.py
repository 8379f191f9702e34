"""What NVIDIA's drivers have complained about in the kernel's log since the machine was started: Xid and SXid lines.

An Xid is about a GPU, an SXid about an NVSwitch; both name the device by its place on the bus. The log is read from
`/dev/kmsg`, whose records are `priority,number,microseconds since the start,flags;text`, or, where that is not
permitted, from the journal. The kernel keeps as much of it as its buffer holds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

KMSG = Path("/dev/kmsg")
MOST_RECORDS = 200_000
_RECORD_BYTES = 8192
_JOURNAL_S = 5.0
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_SXID = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_MOST_TOLD = 200
_TEXT_MAX = 200


def complaints(records: Iterable[str], up_s: float) -> list[dict[str, Any]]:
    """The complaints in these records, the latest ones, with their age in seconds."""
    found = [each for record in records if (each := _complaint(record, up_s)) is not None]
    return found[-_MOST_TOLD:]


def _complaint(record: str, up_s: float) -> dict[str, Any] | None:
    head, _, text = record.partition(";")
    for source, pattern in (("xid", _XID), ("sxid", _SXID)):
        match = pattern.search(text)
        if match:
            fields = head.split(",")
            at_s = int(fields[2]) / 1e6 if len(fields) > 2 and fields[2].isdecimal() else 0.0
            named = {"source": source, "bus": match.group(1).lower(), "number": int(match.group(2))}
            return {**named, "age_s": round(max(up_s - at_s, 0.0)), "text": match.group(3)[:_TEXT_MAX]}
    return None


def read() -> list[dict[str, Any]]:
    """The complaints of this machine; none where its log may not be read."""
    return complaints(
        _of_kmsg() if os.access(KMSG, os.R_OK) else _of_journal(), time.clock_gettime(time.CLOCK_BOOTTIME)
    )


def _of_kmsg() -> Iterator[str]:
    try:
        log = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for _ in range(MOST_RECORDS):
            try:
                yield os.read(log, _RECORD_BYTES).decode(errors="replace")
            except BrokenPipeError:
                continue  # overwritten while we read: the next one is there
            except OSError:
                return
    finally:
        os.close(log)


def _of_journal() -> Iterator[str]:
    """Lines of the journal in the form of the kernel's records."""
    tool = shutil.which("journalctl")
    if tool is None:
        return
    command = [tool, "--dmesg", "--boot", "--output=short-monotonic", "--no-pager", "--grep=Xid"]
    try:
        told = subprocess.run(  # noqa: S603  # the command is fixed
            command, capture_output=True, text=True, timeout=_JOURNAL_S, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return
    yield from map(record_of_line, told.splitlines())


def record_of_line(line: str) -> str:
    """`[   12.345678] host kernel: text` as a record of the kernel."""
    match = re.match(r"\[\s*(\d+)\.(\d{6})\]\s*(.*)", line)
    return f"6,0,{int(match.group(1)) * 1_000_000 + int(match.group(2))},-;{match.group(3)}" if match else f";{line}"
