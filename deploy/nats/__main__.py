"""`python -m deploy.nats`: makes the streams, consumers and buckets of a platform that a launcher did not start.

It connects as the user `platform`, waits for JetStream, and ends once everything is as this version needs it, or with
one error that says what is not. It may run any number of times, so an upgrade runs it again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import structlog
from nats.errors import Error as NatsError
from nats.js.errors import APIError
from pydantic import Field, field_validator

from shared.bus import Bus, BusUnavailableError
from shared.bus.provision import provision
from shared.errors import TrainmasterError, UnavailableError
from shared.settings import ServiceSettings, read_settings
from shared.telemetry import configure_logging

_RETRY_S: Final = 1.0
_NO_LEADER_YET: Final = 503


class ProvisionSettings(ServiceSettings):
    """What every service needs, and on how many servers each stream is to be."""

    nats_user: str = "platform"
    nats_replicas: int = Field(1, description="servers that keep each stream: 1, 3 or 5")
    provision_within_s: float = Field(300, gt=0, description="how long to wait for NATS before giving up")

    @field_validator("nats_replicas")
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
        await provision(bus.js, replicas=settings.nats_replicas)
    except APIError as error:
        if error.code != _NO_LEADER_YET and "insufficient" not in str(error.description):
            raise UnavailableError(f"NATS refuses: {error.description}") from error
        raise BusUnavailableError(str(error.description)) from error
    except (NatsError, OSError) as error:
        raise BusUnavailableError(f"NATS does not answer: {type(error).__name__}") from error
    finally:
        await bus.close()


def main() -> None:
    """Provision with the settings of the environment."""
    try:
        settings = read_settings(ProvisionSettings, os.environ)
        configure_logging(settings.log_format, settings.log_level)
        asyncio.run(provision_patiently(settings))
    except TrainmasterError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main()
