"""`python -m deploy.nats`: makes the streams, consumers and buckets of a platform that a launcher did not start.

It connects as the user `platform`, waits for JetStream, and ends once everything is as this version needs it, or with
one error that says what is not. It may run any number of times, so an upgrade runs it again.

`python -m deploy.nats backup DIRECTORY [--keep N]` and `restore BACKUP` are what `backups` tells of. Restoring ends
with setting up what a backup does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Final

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import APIError
from pydantic import Field, field_validator

from deploy.nats.backups import Backups, restore_backup
from shared.bus import Bus, BusUnavailableError
from shared.bus.provision import provision
from shared.clock import SystemClock
from shared.errors import TrainmasterError, UnavailableError
from shared.settings import ServiceSettings, read_settings, variables
from shared.telemetry import configure_logging
from shared.variables import refuse_misspelt

_RETRY_S: Final = 1.0
_NO_LEADER_YET: Final = 503


class ProvisionSettings(ServiceSettings):
    """What every service needs, and on how many servers each stream is to be."""

    nats_user: str = "platform"
    nats_replicas: int = Field(1, description="servers that keep each stream: 1, 3 or 5")
    nats_log_replicas: int = Field(
        1, description="servers that keep logs in transit: several go on when one is away, and take a fraction as much"
    )
    provision_within_s: float = Field(300, gt=0, description="how long to wait for NATS before giving up")

    @field_validator("nats_replicas", "nats_log_replicas")
    @classmethod
    def _odd(cls, replicas: int) -> int:
        if replicas not in {1, 3, 5}:
            raise ValueError("1, 3 or 5: a majority of the servers must agree")
        return replicas


async def provision_patiently(settings: ProvisionSettings) -> None:
    """Make everything as soon as NATS takes it; raises ProvisionError, or UnavailableError where NATS never comes."""
    reason = "no answer"
    try:
        async with asyncio.timeout(settings.provision_within_s):
            while True:
                try:
                    await _provision(settings)
                except BusUnavailableError as error:
                    reason = error.message
                else:
                    return
                structlog.get_logger().warning("provisioning_waits", reason=reason)
                await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise UnavailableError(f"NATS was not ready within {settings.provision_within_s:g} s: {reason}") from None


async def _provision(settings: ProvisionSettings) -> None:
    bus = await Bus.connect(settings.bus_options())
    try:
        await bus.check()
        await provision(bus.js, replicas=settings.nats_replicas, log_replicas=settings.nats_log_replicas)
    except APIError as error:
        if error.code != _NO_LEADER_YET and "insufficient" not in str(error.description):
            raise UnavailableError(f"NATS refuses: {error.description}") from error
        raise BusUnavailableError(str(error.description)) from error
    except (NatsError, OSError) as error:
        raise BusUnavailableError(f"NATS does not answer: {type(error).__name__}") from error
    finally:
        await bus.close()


async def back_up(settings: ProvisionSettings, root: Path, keep: int) -> None:
    """Take a backup below the directory and keep that many; raises SnapshotError, UnavailableError."""
    backups = Backups(root)
    bus = await Bus.connect(settings.bus_options())
    try:
        place = await backups.take(bus, SystemClock().now())
    finally:
        await bus.close()
    removed = backups.forget_all_but(keep) if keep else []
    structlog.get_logger().info("backed_up", place=str(place), removed=[path.name for path in removed])


async def restore_from(settings: ProvisionSettings, place: Path) -> None:
    """Restore a backup into an empty NATS; raises SnapshotError, ProvisionError, UnavailableError."""
    bus = await Bus.connect(settings.bus_options())
    try:
        await restore_backup(bus, place, replicas=settings.nats_replicas)
    finally:
        await bus.close()
    await provision_patiently(settings)
    structlog.get_logger().info("restored", place=str(place))


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.nats", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    backup = commands.add_parser("backup")
    backup.add_argument("directory", type=Path)
    backup.add_argument("--keep", type=int, default=0, help="so many stay below the directory; 0: all")
    commands.add_parser("restore").add_argument("backup", type=Path)
    return parser.parse_args(words)


def _work(settings: ProvisionSettings, given: argparse.Namespace) -> Coroutine[None, None, None]:
    if given.command == "backup":
        return back_up(settings, given.directory, given.keep)
    if given.command == "restore":
        return restore_from(settings, given.backup)
    return provision_patiently(settings)


def main(words: Sequence[str]) -> None:
    """Do what the words say with the settings of the environment."""
    given = _arguments(words)
    try:
        refuse_misspelt(variables(ProvisionSettings), os.environ)
        settings = read_settings(ProvisionSettings, os.environ)
        configure_logging(settings.log_format, settings.log_level)
        asyncio.run(_work(settings, given))
    except TrainmasterError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main(sys.argv[1:])
