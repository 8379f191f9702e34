"""Makes the streams, consumers and buckets of `streams`, and refuses to run on ones that differ.

What is missing is created, and a stream gets the subjects that this version adds. What exists is compared with what
this version needs, setting by setting; a difference is a `ProvisionError` naming it, since a consumer that quietly
keeps an old filter would hand a service the wrong messages. Two things are set right in place, as nothing is lost by
them and a home of an earlier version must start: a stream that is now to keep its messages for ever, and the pace of a
consumer (how long an acknowledgement may take, how often and how many at a time are delivered).
"""

from __future__ import annotations

import dataclasses
from typing import Final

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, KeyValueConfig, ObjectStoreConfig, StreamConfig
from nats.js.errors import APIError, NotFoundError

from shared.bus.errors import BusUnavailableError, ProvisionError
from shared.bus.streams import REACTIONS, bucket_configs, object_store_configs, stream_configs

_STREAM_SETTINGS: Final = (
    "subjects",
    "storage",
    "retention",
    "max_age",
    "deny_delete",
    "deny_purge",
    "max_bytes",
    "max_msgs_per_subject",
    "discard",
    "compression",
    "allow_direct",
    "allow_atomic",
    "allow_msg_ttl",
    "persist_mode",
    "num_replicas",
)
_CONSUMER_SETTINGS: Final = (
    "filter_subject",
    "ack_policy",
    "deliver_policy",
)
_PACE: Final = ("ack_wait", "max_deliver", "max_ack_pending")


async def provision(js: JetStreamContext, *, replicas: int = 1, log_replicas: int = 1) -> None:
    """Create what is missing; raises ProvisionError on what exists with other settings."""
    for stream in stream_configs(replicas, log_replicas):
        await _stream(js, stream)
    for store in object_store_configs(replicas):
        await _object_store(js, store)
    for reaction in REACTIONS:
        await _consumer(js, reaction.stream, reaction.config())
    for bucket in bucket_configs(replicas):
        await _bucket(js, bucket)


async def check_provisioned(js: JetStreamContext) -> None:
    """Raise BusUnavailableError until all has been made once: what is made last is there, and all may see it."""
    last = bucket_configs()[-1].bucket
    try:
        await js.stream_info(f"KV_{last}")
    except NotFoundError:
        raise BusUnavailableError("streams and consumers are not set up yet; `python -m deploy.nats` does so") from None
    except (NatsError, APIError, OSError, TimeoutError) as error:
        raise BusUnavailableError(f"JetStream does not answer: {type(error).__name__}") from error


async def _stream(js: JetStreamContext, wanted: StreamConfig) -> None:
    try:
        found = (await js.stream_info(str(wanted.name))).config
    except NotFoundError:
        await js.add_stream(wanted)
        return
    if found.max_age and not wanted.max_age:
        await js.update_stream(wanted)
        found = wanted
    if set(found.subjects or ()) < set(wanted.subjects or ()):
        found = (await js.update_stream(found, subjects=wanted.subjects)).config
    _compare(f"stream {wanted.name}", found, wanted, _STREAM_SETTINGS)


async def _consumer(js: JetStreamContext, stream: str, wanted: ConsumerConfig) -> None:
    try:
        found = (await js.consumer_info(stream, str(wanted.durable_name))).config
    except NotFoundError:
        await js.add_consumer(stream, wanted)
        return
    what = f"consumer {wanted.durable_name} of {stream}"
    _compare(what, found, wanted, _CONSUMER_SETTINGS)
    if any(_differs(found, wanted, setting) for setting in _PACE):
        pace = {setting: getattr(wanted, setting) for setting in _PACE if getattr(wanted, setting) is not None}
        await js.add_consumer(stream, found.evolve(**pace))
        # The answer to the change may still have what was before it.
        found = (await js.consumer_info(stream, str(wanted.durable_name))).config
    _compare(what, found, wanted, _PACE)


async def _bucket(js: JetStreamContext, wanted: KeyValueConfig) -> None:
    try:
        found = (await js.stream_info(f"KV_{wanted.bucket}")).config
    except NotFoundError:
        await js.create_key_value(wanted)
        return
    history = StreamConfig(max_msgs_per_subject=wanted.history, num_replicas=wanted.replicas)
    _compare(f"bucket {wanted.bucket}", found, history, ("max_msgs_per_subject", "num_replicas"))


async def _object_store(js: JetStreamContext, wanted: ObjectStoreConfig) -> None:
    try:
        await js.stream_info(f"OBJ_{wanted.bucket}")
    except NotFoundError:
        await js.create_object_store(str(wanted.bucket), wanted)


def _compare(what: str, found: object, wanted: object, settings: tuple[str, ...]) -> None:
    for setting in settings:
        if _differs(found, wanted, setting):
            raise ProvisionError(what, setting, getattr(found, setting), getattr(wanted, setting))


def _differs(found: object, wanted: object, setting: str) -> bool:
    want = getattr(wanted, setting)
    return want is not None and _plain(getattr(found, setting)) != _plain(want)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return sorted(map(str, value))
    if dataclasses.is_dataclass(value):
        return str(value)
    return value or 0
