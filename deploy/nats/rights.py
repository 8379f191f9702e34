"""Who may do what on NATS: a user a service with the least rights, the same on one machine and on a cluster.

A service may publish only the events that it is the author of, read the streams it needs, and receive on its own inbox.
The user `platform` makes streams and consumers at start-up and is used for nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.agent_evidence import STACKS_SUBJECTS
from shared.agent_wire import PROBE_SUBJECTS, SHIPPED_SUBJECTS
from shared.bus.streams import (
    ARCHIVE,
    BILLING,
    CATALOG_BUCKET,
    CHECKS,
    CODE_BUCKET,
    CREDENTIALS_BUCKET,
    DIAGNOSER_CHECKS,
    DIAGNOSER_REQUESTS,
    DIAGNOSER_STEPS,
    EVIDENCE_BUCKET,
    GANG_CODE_BUCKET,
    JOBS,
    LEASE_BUCKET,
    LOGS_DELETIONS,
    NODES,
    REVOCATION_BUCKET,
    SCHEDULER_USAGE,
    SECRETS_BUCKET,
    USAGE,
    WATCHDOG_ATTEMPTS,
    Reaction,
    logs_partition,
    watchdog_partition,
)
from shared.diagnosis_wire import CANCEL_SUBJECTS, TEST_SUBJECTS
from shared.events import PAYLOADS, NodeSuspected
from shared.logs_wire import CHUNK_SUBJECTS, KEPT_SUBJECTS, LOG_PARTITIONS

_CONSUMERS_OF_LOGS: Final = {"logs": logs_partition, "watchdog": watchdog_partition}


@dataclass(frozen=True, slots=True)
class Rights:
    """What a NATS user may publish and subscribe to, beside its own inbox; `answers`: it may reply to a request."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...] = ()
    answers: bool = False


def _reads(stream: str) -> tuple[str, ...]:
    return (
        f"$JS.API.STREAM.INFO.{stream}",
        f"$JS.API.STREAM.MSG.GET.{stream}",
        f"$JS.API.DIRECT.GET.{stream}",
        f"$JS.API.DIRECT.GET.{stream}.>",
        f"$JS.API.CONSUMER.CREATE.{stream}",
        f"$JS.API.CONSUMER.CREATE.{stream}.>",
        f"$JS.API.CONSUMER.DELETE.{stream}.>",
        f"$JS.API.CONSUMER.INFO.{stream}.>",
        f"$JS.FC.{stream}.>",
    )


def _looks_up(stream: str) -> tuple[str, ...]:
    """Reading single messages, which needs no consumer."""
    return (
        f"$JS.API.STREAM.INFO.{stream}",
        f"$JS.API.DIRECT.GET.{stream}",
        f"$JS.API.DIRECT.GET.{stream}.>",
    )


def _reacts(stream: str, durable: str) -> tuple[str, ...]:
    return (
        f"$JS.API.CONSUMER.INFO.{stream}.{durable}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _reaction(reaction: Reaction) -> tuple[str, ...]:
    return _reacts(reaction.stream, reaction.durable)


def _reacts_to_logs(service: str) -> tuple[str, ...]:
    """The service's consumers of all partitions of the log transit, and nobody else's."""
    partitions = _CONSUMERS_OF_LOGS[service]
    return tuple(subject for number in range(LOG_PARTITIONS) for subject in _reaction(partitions(number)))


def _authored(service: str) -> tuple[str, ...]:
    """Subjects of the events about jobs and nodes that the service is the author of."""
    own = [payload for payload in PAYLOADS if service == payload.AUTHOR]
    jobs = (f"tm.job.*.{payload.KIND}.{payload.SUFFIX}" for payload in own if payload.KIND in ("state", "obs"))
    checks = (f"tm.check.*.{payload.SUFFIX}" for payload in own if payload.KIND == "check")
    return (*jobs, *(f"tm.node.*.*.{payload.SUFFIX}" for payload in own if payload.KIND == "node"), *checks)


def _catalog(*kinds: str) -> tuple[str, ...]:
    """Reading the whole catalog, writing these kinds."""
    return (*_reads(f"KV_{CATALOG_BUCKET}"), *(f"$KV.{CATALOG_BUCKET}.{kind}.*" for kind in kinds))


_CATALOG_CHANGES: Final = f"$KV.{CATALOG_BUCKET}.>"
_EVERYBODY: Final = ("$JS.API.INFO", *_reads(JOBS), *_reads(ARCHIVE), *_reads(f"KV_{REVOCATION_BUCKET}"))

RIGHTS: Final[Mapping[str, Rights]] = {
    "platform": Rights((">",), (">",)),
    "submitter": Rights(
        (
            *_EVERYBODY,
            *_authored("submitter"),
            "tm.name.*",
            "tm.archive.*",
            f"$JS.API.STREAM.PURGE.{JOBS}",
            "tm.dlq.submitter.>",
            *_catalog("storage", "dataset", "model", "image", "code-set", "secret", "project", "user", "group"),
            *_reads(f"OBJ_{CODE_BUCKET}"),
            f"$O.{CODE_BUCKET}.>",
            f"$JS.API.STREAM.PURGE.OBJ_{CODE_BUCKET}",
            f"$KV.{REVOCATION_BUCKET}.>",
            *_reads(f"KV_{CREDENTIALS_BUCKET}"),
            f"$KV.{CREDENTIALS_BUCKET}.*",
            f"$JS.API.STREAM.INFO.KV_{SECRETS_BUCKET}",
            f"$KV.{SECRETS_BUCKET}.*",
        ),
        (_CATALOG_CHANGES,),
    ),
    "scheduler": Rights(
        (
            *_EVERYBODY,
            *_authored("scheduler"),
            "tm.epoch.>",
            "tm.usage.*",
            *_reads(USAGE),
            *_reaction(SCHEDULER_USAGE),
            "tm.dlq.scheduler.>",
            *_catalog("cluster", "pool", "instance-type"),
            *_reads(f"KV_{LEASE_BUCKET}"),
            f"$KV.{LEASE_BUCKET}.>",
            "$JS.API.STREAM.NAMES",  # the client looks an object's stream up by its subject
            *_reads(f"OBJ_{CODE_BUCKET}"),
            *_reads(f"OBJ_{GANG_CODE_BUCKET}"),
            f"$O.{GANG_CODE_BUCKET}.>",
            f"$JS.API.STREAM.PURGE.OBJ_{GANG_CODE_BUCKET}",
            *_reads(NODES),
            *_reads(f"KV_{SECRETS_BUCKET}"),
            SHIPPED_SUBJECTS,
        ),
        (_CATALOG_CHANGES,),
    ),
    "watchdog": Rights(
        (
            *_EVERYBODY,
            *_authored("watchdog"),
            f"tm.node.*.*.{NodeSuspected.SUFFIX}",
            *_reaction(WATCHDOG_ATTEMPTS),
            *_reacts_to_logs("watchdog"),
            "$JS.API.STREAM.INFO.LOGS",
            "tm.dlq.watchdog.>",
            STACKS_SUBJECTS,
            *_reads(NODES),
            *_catalog("rule", "notification"),
            *_reads(f"KV_{SECRETS_BUCKET}"),
            "tm.platform.>",
            "$JS.API.STREAM.NAMES",  # the client looks an object's stream up by its subject
            *_reads(f"OBJ_{EVIDENCE_BUCKET}"),
            f"$O.{EVIDENCE_BUCKET}.>",
            f"$JS.API.STREAM.PURGE.OBJ_{EVIDENCE_BUCKET}",
        ),
        (_CATALOG_CHANGES,),
    ),
    "diagnoser": Rights(
        (
            *_EVERYBODY,
            *_authored("diagnoser"),
            *_reaction(DIAGNOSER_REQUESTS),
            *_reaction(DIAGNOSER_CHECKS),
            *_reaction(DIAGNOSER_STEPS),
            *_reads(NODES),
            *_reads(CHECKS),
            *_catalog(),
            *_reads(f"KV_{LEASE_BUCKET}"),
            f"$KV.{LEASE_BUCKET}.diagnosis.>",
            "tm.dlq.diagnoser.>",
            PROBE_SUBJECTS,
            TEST_SUBJECTS,
            CANCEL_SUBJECTS,
        )
    ),
    "logs": Rights(
        (
            *_EVERYBODY,
            *_authored("logs"),
            *_catalog(),
            *_reacts_to_logs("logs"),
            "$JS.API.STREAM.INFO.LOGS",
            *_reaction(LOGS_DELETIONS),
            "tm.kept.>",
            "tm.dlq.logs.>",
        ),
        (_CATALOG_CHANGES,),
    ),
    "agent": Rights(
        (CHUNK_SUBJECTS,),
        (KEPT_SUBJECTS, PROBE_SUBJECTS, STACKS_SUBJECTS, SHIPPED_SUBJECTS, TEST_SUBJECTS, CANCEL_SUBJECTS),
        answers=True,
    ),
    # A billing subscriber reads the stream of usage, new messages through the consumer that is made for it.
    "billing": Rights((*_reaction(BILLING), *_looks_up(USAGE))),
}
