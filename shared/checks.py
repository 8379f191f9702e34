"""Readiness checks that several services hand to `create_app`: JetStream answers, and each consumer is what it must be.

A connected socket says little: a consumer that was deleted underneath delivers nothing and raises nothing. So each
reaction is looked up by name, and its filter compared, whenever somebody asks whether the service is ready.
"""

from __future__ import annotations

from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from shared.bus import Bus
from shared.bus.streams import Reaction
from shared.errors import UnavailableError
from shared.http.health import Check


def jetstream(bus: Bus) -> Check:
    """Whether JetStream answers this service's user."""

    async def check() -> str:
        await bus.check()
        return "answers"

    return check


def consumer(bus: Bus, reaction: Reaction) -> Check:
    """Whether the durable consumer of a reaction is there with its filter, and how much waits in it."""
    name = f"consumer {reaction.durable} of {reaction.stream}"

    async def check() -> str:
        try:
            info = await bus.js.consumer_info(reaction.stream, reaction.durable)
        except NotFoundError:
            raise UnavailableError(f"{name} is gone; restart the platform, which makes it again") from None
        except (NatsError, APIError, OSError) as error:
            raise UnavailableError(f"{name} cannot be looked up: {type(error).__name__}") from None
        if info.config.filter_subject != reaction.subject:
            raise UnavailableError(f"{name} has filter {info.config.filter_subject}, not {reaction.subject}")
        return f"{info.num_pending or 0} waiting, {info.num_ack_pending or 0} in hand"

    return check
