"""Which streams, consumers and buckets there are, as data; `provision` makes them so.

Sizes are those of one machine; a cluster overrides `replicas`. `JOBS` and `NODES` are truth and are kept; jobs that
ended long ago move on to `ARCHIVE`. Nobody can take a message out of `ARCHIVE`, nor out of `USAGE`, which bills are
made of. `LOGS` is transit: bounded, holds a message until its consumers have it and an hour at most, refuses new
messages when full (the agent then waits, its files are the buffer) and is written without a sync a message. Only what
one server keeps can be; so in a cluster one of them has it, and what that one loses is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    KeyValueConfig,
    ObjectStoreConfig,
    PersistMode,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
)

from shared.logs_wire import LOG_PARTITIONS
from shared.units import GIB, MIB

JOBS: Final = "JOBS"
ARCHIVE: Final = "ARCHIVE"
USAGE: Final = "USAGE"
NODES: Final = "NODES"
CHECKS: Final = "CHECKS"
LOGS: Final = "LOGS"
DLQ: Final = "DLQ"

CATALOG_BUCKET: Final = "catalog"
CREDENTIALS_BUCKET: Final = "credentials"
LEASE_BUCKET: Final = "leases"
REVOCATION_BUCKET: Final = "revocations"
SECRETS_BUCKET: Final = "secrets"
CODE_BUCKET: Final = "code"
GANG_CODE_BUCKET: Final = "gang-code"
EVIDENCE_BUCKET: Final = "evidence"

EPOCH_SUBJECT: Final = "tm.epoch.scheduler"
PLATFORM_SUBJECTS: Final = "tm.platform.>"

_DAY_S: Final = 24 * 3600
_USAGE_KEPT_S: Final = 400 * _DAY_S
_CHECKS_KEPT_S: Final = 30 * _DAY_S


@dataclass(frozen=True, slots=True)
class Reaction:
    """A durable pull consumer that a service reacts with."""

    stream: str
    durable: str
    subject: str
    ack_wait_s: float = 15.0
    max_ack_pending: int = 128

    def config(self) -> ConsumerConfig:
        """Configuration that the server must hold for it."""
        return ConsumerConfig(
            durable_name=self.durable,
            filter_subject=self.subject,
            ack_policy=AckPolicy.EXPLICIT,
            deliver_policy=DeliverPolicy.ALL,
            ack_wait=self.ack_wait_s,
            max_deliver=-1,
            max_ack_pending=self.max_ack_pending,
        )


WATCHDOG_ATTEMPTS: Final = Reaction(JOBS, "watchdog-attempts", "tm.job.*.state.attempt.ended")
DIAGNOSER_REQUESTS: Final = Reaction(JOBS, "diagnoser-requests", "tm.job.*.obs.diagnosis.requested")
# Waits for one of the instances of the diagnoser; only so many checks run at a time, over all of them.
DIAGNOSER_CHECKS: Final = Reaction(CHECKS, "diagnoser-checks", "tm.check.*.requested", max_ack_pending=4)
DIAGNOSER_STEPS: Final = Reaction(JOBS, "diagnoser-steps", "tm.job.*.obs.steps.measured")
SCHEDULER_USAGE: Final = Reaction(JOBS, "scheduler-usage", "tm.job.*.state.attempt.ended")
# What a billing subscriber reads with; see docs/billing.md.
BILLING: Final = Reaction(USAGE, "billing", "tm.usage.*", ack_wait_s=60.0, max_ack_pending=1024)
LOGS_DELETIONS: Final = Reaction(JOBS, "logs-deletions", "tm.job.*.state.deleted")


def logs_partition(partition: int) -> Reaction:
    """The consumer of one partition of the log transit."""
    return Reaction(LOGS, f"logs-{partition}", f"tm.log.{partition}.>", ack_wait_s=60.0, max_ack_pending=1024)


def watchdog_partition(partition: int) -> Reaction:
    """The watchdog's consumer of the same partition; what was in hand when it died comes again soon."""
    return Reaction(LOGS, f"watchdog-{partition}", f"tm.log.{partition}.>", ack_wait_s=5.0, max_ack_pending=1024)


REACTIONS: Final = (
    WATCHDOG_ATTEMPTS,
    SCHEDULER_USAGE,
    BILLING,
    DIAGNOSER_REQUESTS,
    DIAGNOSER_CHECKS,
    DIAGNOSER_STEPS,
    LOGS_DELETIONS,
    *(logs_partition(partition) for partition in range(LOG_PARTITIONS)),
    *(watchdog_partition(partition) for partition in range(LOG_PARTITIONS)),
)


def stream_configs(replicas: int = 1, log_replicas: int = 1) -> tuple[StreamConfig, ...]:
    """Every stream with the settings that the platform depends on; how many servers keep each, and LOGS."""
    return (
        StreamConfig(
            name=JOBS,
            subjects=[
                "tm.job.*.state.>",
                "tm.job.*.obs.>",
                "tm.name.*",
                EPOCH_SUBJECT,
                "tm.epoch.fence.*",
                PLATFORM_SUBJECTS,
            ],
            storage=StorageType.FILE,
            compression=StoreCompression.S2,
            allow_direct=True,
            allow_atomic=True,
            allow_msg_ttl=True,
            duplicate_window=120,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=ARCHIVE,
            subjects=["tm.archive.*"],
            storage=StorageType.FILE,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            duplicate_window=120,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=USAGE,
            subjects=["tm.usage.*"],
            storage=StorageType.FILE,
            compression=StoreCompression.S2,
            max_age=_USAGE_KEPT_S,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            duplicate_window=120,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=NODES,
            subjects=["tm.node.>"],
            storage=StorageType.FILE,
            max_msgs_per_subject=64,
            allow_direct=True,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=CHECKS,
            subjects=["tm.check.>"],
            storage=StorageType.FILE,
            max_age=_CHECKS_KEPT_S,
            allow_direct=True,
            duplicate_window=120,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=LOGS,
            subjects=["tm.log.>"],
            storage=StorageType.FILE,
            persist_mode=PersistMode.ASYNC if log_replicas == 1 else None,
            retention=RetentionPolicy.INTEREST,
            max_age=3600,
            max_bytes=2 * GIB,
            discard=DiscardPolicy.NEW,
            duplicate_window=1,
            num_replicas=log_replicas,
        ),
        StreamConfig(
            name=DLQ,
            subjects=[
                "tm.dlq.>",
                "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>",
                "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>",
            ],
            storage=StorageType.FILE,
            max_age=30 * _DAY_S,
            max_bytes=256 * MIB,
            allow_direct=True,
            num_replicas=replicas,
        ),
    )


def bucket_configs(replicas: int = 1) -> tuple[KeyValueConfig, ...]:
    """Every key-value bucket."""
    return (
        KeyValueConfig(bucket=CATALOG_BUCKET, history=5, storage=StorageType.FILE, replicas=replicas, direct=True),
        KeyValueConfig(bucket=CREDENTIALS_BUCKET, history=1, storage=StorageType.FILE, replicas=replicas),
        KeyValueConfig(bucket=SECRETS_BUCKET, history=1, storage=StorageType.FILE, replicas=replicas),
        KeyValueConfig(bucket=LEASE_BUCKET, history=1, limit_marker_ttl=60, replicas=replicas),
        KeyValueConfig(bucket=REVOCATION_BUCKET, history=1, limit_marker_ttl=60, replicas=replicas),
    )


def object_store_configs(replicas: int = 1) -> tuple[ObjectStoreConfig, ...]:
    """Every object store."""
    kept = (
        ObjectStoreConfig(bucket=bucket, storage=StorageType.FILE, replicas=replicas)
        for bucket in (CODE_BUCKET, EVIDENCE_BUCKET)
    )
    passing = ObjectStoreConfig(bucket=GANG_CODE_BUCKET, storage=StorageType.FILE, ttl=7 * _DAY_S, replicas=replicas)
    return (*kept, passing)
