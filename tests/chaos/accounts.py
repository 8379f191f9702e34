"""The accountant: compares what was billed with what the events say, and with what a subscriber counted.

The raw stream USAGE is read with plain nats-py. The example subscriber counts into a database of its own, several times
over, once from the very beginning: it must have each record once.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.platform import ROOT, Platform, await_

SUBSCRIBER: Final = ROOT / "examples" / "billing-subscriber" / "subscriber.py"


def complaints_about_usage(platform: Platform, jobs: Mapping[str, str]) -> Iterator[str]:
    """Sentences about bills that are wrong, or counted twice or not at all."""
    await_("every bill is complete and verified", lambda: _verified(platform), 90)
    database = platform.home.parent / "billing.sqlite"
    for option in ("--once", "--once", "--replay"):
        _subscribe(platform, database, option)
    recorded, counted = _recorded(platform), _counted(database)
    for name, job in jobs.items():
        billed = _billed(platform, job)
        if not recorded.get(job, 0) == counted.get(job, 0) == billed:
            yield f"{name}: recorded {recorded.get(job)}, counted {counted.get(job)}, billed {billed} micros"
    for stranger in recorded.keys() - set(jobs.values()):
        yield f"usage is recorded of {stranger}, which nobody submitted"


def _verified(platform: Platform) -> bool:
    return platform.cli("usage", "verify", check=False).returncode == 0


def _billed(platform: Platform, job: str) -> int:
    bill = json.loads(platform.cli("usage", job, "-o", "json").stdout)
    return int(bill["total"]["amountMicros"])


def _subscribe(platform: Platform, database: Path, option: str) -> None:
    access = platform.home / "config" / "billing.json"
    command = [sys.executable, str(SUBSCRIBER), "--access", str(access), "--database", str(database), option]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _counted(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as opened:
        return dict(opened.execute("SELECT job, SUM(amount_micros) FROM usage GROUP BY job"))


def _recorded(platform: Platform) -> dict[str, int]:
    """Micros of each job; a record that the stream has twice under one id counts once."""
    events = {(event["source"], event["id"]): event for event in asyncio.run(_events(platform.home))}
    amounts: defaultdict[str, int] = defaultdict(int)
    for event in events.values():
        amounts[event["subject"]] += int(event["data"]["amountMicros"])
    return amounts


async def _events(home: Path) -> list[dict[str, Any]]:
    url = json.loads((home / "platform.json").read_text())["nats_url"]
    password = json.loads((home / "config" / "secrets.json").read_text())["nats_passwords"]["platform"]
    connection = await nats.connect(url, user="platform", password=password, inbox_prefix="_INBOX_platform")
    try:
        jetstream = connection.jetstream()
        left = (await jetstream.stream_info("USAGE")).state.messages
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reading = await jetstream.subscribe("tm.usage.>", stream="USAGE", config=config, ordered_consumer=True)
        return [json.loads((await reading.next_msg(timeout=10)).data) for _ in range(left)]
    finally:
        await connection.close()
