"""`get`: a table for each kind, one line a document.

Columns read the document where the API has the value; a kind without a table of its own shows names and times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from rich.table import Table

from trainmaster.decoding import Document, Fields
from trainmaster.documents import Job
from trainmaster.kinds import Kind
from trainmaster.rendering.moments import date_time, took
from trainmaster.rendering.progress import in_short
from trainmaster.rendering.style import state, table

Columns = Mapping[str, Callable[[Fields], object]]


def listing(kind: Kind, documents: Iterable[Document], now: datetime) -> Table:
    """The documents under the headers of their kind."""
    if kind.is_job:
        return table(JOB_HEADERS, (_job_row(Job.of(document), now) for document in documents))
    columns = _COLUMNS.get(kind.name, _ANY)
    return table(columns, ([read(Fields.of(document)) for read in columns.values()] for document in documents))


JOB_HEADERS: Final = ("NAME", "ID", "STATE", "PROGRESS", "ATTEMPT", "REPLICAS", "PROJECT", "OWNER", "SUBMITTED", "TOOK")


def _job_row(job: Job, now: datetime) -> tuple[object, ...]:
    attempt = job.attempts[-1].number if job.attempts else ""
    ran = took(job.submitted_at, job.ended_at or now)
    submitted = date_time(job.submitted_at)
    progress = in_short(job.attempts[-1].progress) if job.attempts else ""
    first = job.name, job.id, state(job.state), progress, attempt, job.replica_count
    return *first, job.project, job.owner, submitted, ran


def _at(*path: str) -> Callable[[Fields], object]:
    """A reader of the value at a path, as people would write it."""

    def read(fields: Fields) -> object:
        for name in path[:-1]:
            fields = fields.fields(name)
        return _shown(fields.document.get(path[-1]))

    return read


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(item)}" for key, item in value.items())
    return "" if value is None else str(value)


def _moment(name: str) -> Callable[[Fields], object]:
    """A reader of a time."""
    return lambda fields: date_time(fields.time(name))


def _used(resource: str) -> Callable[[Fields], object]:
    """A reader of what a project uses of a quota: `3 of 8`, or `3` where there is no limit."""

    def read(fields: Fields) -> object:
        quota = fields.fields("status").fields("quotas").fields(resource)
        limit = quota.optional_integer("limit")
        return f"{quota.integer('used')} of {limit}" if limit is not None else quota.document.get("used", "")

    return read


def _node_reason(fields: Fields) -> str:
    """Why a node is in its state, and whether only the cap keeps it from a quarantine."""
    status = fields.fields("status")
    withheld = "quarantine withheld: " if status.flag("quarantineWithheld") else ""
    return withheld + ": ".join(filter(None, (status.text("by"), status.text("reason"))))


_NAME: Final = {"NAME": _at("metadata", "name")}
_ANY: Final[Columns] = {**_NAME, "CREATED": _at("metadata", "createdAt")}
_ACCESS: Final = {"OWNER": _at("metadata", "owner"), "PUBLIC": _at("spec", "access", "public")}
_DATA: Final[Columns] = {**_NAME, "URI": _at("spec", "uri"), **_ACCESS, "DESCRIPTION": _at("spec", "description")}
_COLUMNS: Final[Mapping[str, Columns]] = {
    "Pool": {
        **_NAME,
        "TYPE": _at("spec", "type"),
        "CLUSTER": _at("spec", "cluster"),
        "QUEUE": _at("spec", "queuePolicy"),
        "MEMBERS": _at("spec", "members"),
        "NODES": _at("status", "nodes"),
        "READY": _at("status", "ready"),
        "FREE": _at("status", "free"),
    },
    "InstanceType": {
        **_NAME,
        "CPU": _at("spec", "cpu"),
        "MEMORY": _at("spec", "memory"),
        "GPUS": _at("spec", "gpu", "count"),
        "GPU MODEL": _at("spec", "gpu", "model"),
        "POOLS": _at("spec", "pools"),
        "PRICE/HOUR": _at("spec", "pricePerHour"),
    },
    "Storage": _DATA,
    "Dataset": _DATA,
    "Model": _DATA,
    "Image": {**_NAME, "TYPE": _at("spec", "type"), "ADDRESS": _at("spec", "address"), **_ACCESS},
    "CodeSet": {**_NAME, "UPLOAD": _at("spec", "upload"), "DIRECTORY": _at("spec", "directory"), **_ACCESS},
    "Project": {
        **_NAME,
        "USERS": _at("spec", "members", "users"),
        "GROUPS": _at("spec", "members", "groups"),
        "RUNNING REPLICAS": _used("runningReplicas"),
        "GPUS": _used("gpus"),
        "QUEUED JOBS": _used("queuedJobs"),
    },
    "User": {
        **_NAME,
        "ADMIN": _at("spec", "admin"),
        "DISABLED": _at("spec", "disabled"),
        "EMAIL": _at("spec", "email"),
    },
    "Cluster": {
        **_NAME,
        "FIRST": _at("spec", "first"),
        "NODES": _at("status", "nodes"),
        "READY": _at("status", "ready"),
        "FREE": _at("status", "free"),
        "MOUNTS": _at("spec", "schemes"),
    },
    "Node": {
        **_NAME,
        "STATE": lambda fields: state(fields.fields("status").text("state")),
        "CLUSTER": _at("spec", "cluster"),
        "POOLS": _at("status", "pools"),
        "CPU": _at("spec", "cpu"),
        "MEMORY": _at("spec", "memory"),
        "GPUS": _at("spec", "gpus"),
        "FREE": _at("status", "free"),
        "WHY": _node_reason,
    },
    "QueueEntry": {
        "POSITION": _at("position"),
        "JOB": _at("job"),
        "STATE": lambda fields: state(fields.text("state")),
        "WAITS FOR": _at("summary"),
    },
    "Rule": {
        **_NAME,
        "FROM": _at("status", "origin"),
        "MODE": _at("status", "mode"),
        "CLASS": _at("spec", "class"),
        "MEANS": _at("status", "meaning"),
        "INCIDENTS": _at("status", "incidents"),
        "JOBS": _at("status", "jobs"),
        "ADVICE": _at("spec", "advice"),
    },
    "Notification": {
        **_NAME,
        "OWNER": _at("metadata", "owner"),
        "PROJECT": _at("spec", "project"),
        "EVENTS": _at("spec", "events"),
        "FORMAT": _at("spec", "webhook", "format"),
        "WAITING": _at("status", "waiting"),
        "DELIVERED": _at("status", "delivered"),
        "GIVEN UP": _at("status", "givenUp"),
        "LAST ERROR": _at("status", "lastError"),
    },
    "Incident": {
        "AT": _moment("at"),
        "JOB": _at("jobName"),
        "ATTEMPT": _at("attempt"),
        "RULE": _at("rule"),
        "CLASS": _at("class"),
        "REPLICA": _at("replica"),
        "LINE": _at("line"),
    },
    "PlatformIncident": {
        "SINCE": _moment("since"),
        "RULE": _at("rule"),
        "SHARED": _at("placeKind"),
        "WHAT": _at("place"),
        "JOBS": lambda fields: len(fields.texts("jobs")),
        "LAST": _moment("lastAt"),
        "LINE": _at("line"),
    },
    "Group": {**_NAME, "MEMBERS": _at("spec", "members")},
}
