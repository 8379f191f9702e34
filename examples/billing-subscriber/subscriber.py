"""A billing subscriber: copies every usage event of a Trainmaster platform into a SQLite file, each exactly once.

It needs nothing but Python and nats-py, and a NATS user that may read the stream USAGE and nothing else; `trainmaster
up` writes address and password of that user to `config/billing.json` in its home. docs/billing.md explains the events.

An event is acknowledged after it is committed, so a crash at any point makes NATS deliver it again; the row is then
written over by the same content, because its key (source, id) is the same. Corrections are rows of their own with
amounts to be added, so a bill is a plain sum.

    python subscriber.py                run until Ctrl-C
    python subscriber.py --once         take what there is and stop
    python subscriber.py --replay       read the whole stream again, for instance into a new file, and stop
    python subscriber.py --report       print what each project owes by the month
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

BATCH = 100
WAIT_S = 2.0
PAUSE_S = 1.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS usage (
    source TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, project TEXT NOT NULL, owner TEXT NOT NULL,
    job TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, phase TEXT NOT NULL, window_start TEXT NOT NULL,
    replica_ms INTEGER NOT NULL, amount_micros INTEGER NOT NULL, corrects TEXT NOT NULL, event TEXT NOT NULL,
    PRIMARY KEY (source, id)
) WITHOUT ROWID
"""
UPSERT = "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REPORT = """
SELECT substr(window_start, 1, 7) AS month, project, SUM(replica_ms), SUM(amount_micros)
FROM usage WHERE phase = 'running' GROUP BY month, project ORDER BY month, project
"""


class Ledger:
    """The SQLite file."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute(SCHEMA)

    def close(self) -> None:
        self._database.close()

    def keep(self, bodies: list[bytes]) -> None:
        """Upsert these events, all or none; they are on disk when this returns."""
        rows = [row for body in bodies if (row := _row(json.loads(body)))]
        with self._database:
            self._database.executemany(UPSERT, rows)

    def report(self) -> list[tuple[str, str, int, int]]:
        """Month, project, replica milliseconds, millionths of the currency."""
        return self._database.execute(REPORT).fetchall()


def _row(event: dict) -> tuple | None:
    """The event as a row; None for types that this version does not know (a newer platform may have more)."""
    if event.get("type") not in ("trainmaster.usage.metered.v1", "trainmaster.usage.corrected.v1"):
        return None
    data = event["data"]
    return (
        *(event["source"], event["id"], event["type"], event.get("project", ""), event.get("owner", "")),
        *(event["subject"], event["attempt"], data["role"], data["phase"], data["windowStart"]),
        *(data["replicaMs"], data["amountMicros"], json.dumps(data.get("corrects", [])), json.dumps(event)),
    )


@asynccontextmanager
async def connected(access: dict) -> AsyncIterator[Client]:
    """A connection as the billing user, who may receive answers on an inbox of its own only."""
    client = await nats.connect(
        access["url"],
        user=access["user"],
        password=access["password"],
        connect_timeout=10,
        inbox_prefix=f"_INBOX_{access['user']}",
        allow_reconnect=False,  # the platform may come back at another port: read the access file again
        error_cb=_ignore,
    )
    try:
        yield client
    finally:
        await client.close()


def told(error: Exception) -> str:
    """What an error says of itself; a timeout says nothing but its name."""
    return str(error) or type(error).__name__


async def _ignore(_error: Exception) -> None:
    """What goes wrong is raised where it was asked for."""


async def take_new(client: Client, access: dict, ledger: Ledger, *, once: bool) -> None:
    """Take what was not acknowledged yet, for ever or as long as there is something."""
    consumer = await client.jetstream().pull_subscribe_bind(access["consumer"], stream=access["stream"])
    while True:
        try:
            messages = await consumer.fetch(BATCH, timeout=WAIT_S)
        except TimeoutError:  # the client raises its own or the plain one, as the last answer came
            if once:
                return
            continue
        ledger.keep([message.data for message in messages])
        for message in messages:
            await message.ack()
        await client.flush()


async def replay(client: Client, access: dict, ledger: Ledger) -> None:
    """Read everything that the stream holds (400 days), whatever was acknowledged before."""
    stream = client.jetstream()
    state = (await stream.stream_info(access["stream"])).state
    for sequence in range(state.first_seq, state.last_seq + 1):
        try:
            ledger.keep([(await stream.get_msg(access["stream"], sequence, direct=True)).data or b"{}"])
        except NotFoundError:
            continue


async def work(access: dict, ledger: Ledger, *, once: bool, replaying: bool) -> None:
    """Work over one connection."""
    async with connected(access) as client:
        if replaying:
            await replay(client, access, ledger)
        else:
            await take_new(client, access, ledger, once=once)


def follow(access_file: Path, ledger: Ledger) -> None:
    """Take what comes, for ever; connect again whenever the platform was away."""
    while True:
        try:
            asyncio.run(work(json.loads(access_file.read_text()), ledger, once=False, replaying=False))
        except (NatsError, APIError, OSError) as error:
            print(f"waiting for the platform: {told(error)}", file=sys.stderr)
            time.sleep(PAUSE_S)


def default_access() -> Path:
    """Where `trainmaster up` writes it."""
    return Path(os.environ.get("TRAINMASTER_HOME") or Path.home() / ".trainmaster") / "config" / "billing.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--access", type=Path, default=default_access(), help="config/billing.json of the home")
    parser.add_argument("--database", type=Path, default=Path("billing.sqlite"))
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--once", action="store_true")
    doing.add_argument("--replay", action="store_true")
    doing.add_argument("--report", action="store_true")
    given = parser.parse_args()
    ledger = Ledger(given.database)
    try:
        if given.report:
            for month, project, replica_ms, amount_micros in ledger.report():
                hours, amount = replica_ms / 3_600_000, amount_micros / 1_000_000
                print(f"{month}  {project}  {hours:.3f} replica hours  {amount:.6f}")
        elif given.once or given.replay:
            asyncio.run(work(json.loads(given.access.read_text()), ledger, once=given.once, replaying=given.replay))
        else:
            follow(given.access, ledger)
    except (NatsError, APIError, OSError) as error:
        sys.exit(f"no usage from {given.access}: {told(error)}")
    except KeyboardInterrupt:
        pass
    finally:
        ledger.close()


if __name__ == "__main__":
    main()
