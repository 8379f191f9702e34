"""Small builders of events and jobs for tests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from shared import events as ev
from shared.events import Event, Payload
from shared.ids import new_job_id
from shared.jobs import Job, Recorded, fold_all

START = datetime(2026, 1, 1, tzinfo=UTC)


def role(name: str = "worker", **changes: object) -> ev.ResolvedRole:
    fields: dict[str, object] = {
        "name": name,
        "pool": "p-public",
        "pool_name": "public",
        "instance_type": "cpu-small",
        "cpu_millis": 1000,
        "memory_bytes": 1 << 30,
        "price_micros_per_hour": 100_000,
    }
    return ev.ResolvedRole.model_validate({**fields, **changes})


def submitted(name: str = "demo", replicas: int = 2, **changes: object) -> ev.Submitted:
    spec = {
        "image": {"source": "address", "ref": "busybox"},
        "roles": [{"name": "worker", "replicas": replicas, "instanceType": "cpu-small", "command": "true"}],
    }
    fields: dict[str, object] = {
        "name": name,
        "owner_name": "ada",
        "spec": spec,
        "resolved": ev.Resolved(cluster="main", roles=(role(),)),
    }
    return ev.Submitted.model_validate({**fields, **changes})


def placed(replicas: int = 2, node: str = "n-1") -> ev.Placed:
    placement = ev.RolePlacement(role="worker", pool="p-public", nodes=(node,), node_of=(0,) * replicas)
    return ev.Placed(cluster="main", roles=(placement,))


def event(payload: Payload, job: str, attempt: int = 1, at_s: float = 0, part: str = "") -> Event:
    return Event.of(
        payload,
        job=job,
        attempt=attempt,
        time=START + timedelta(seconds=at_s),
        owner="u-ada",
        project="default",
        part=part,
    )


def history(payloads: Iterable[tuple[Payload, int]], job: str | None = None) -> list[Recorded]:
    """Events of (payload, attempt) as a stream would hold them."""
    job = job or new_job_id()
    recorded = []
    for sequence, (payload, attempt) in enumerate(payloads, start=1):
        fact = event(payload, job, attempt, at_s=sequence, part=str(sequence) if payload.KIND == "obs" else "")
        recorded.append(Recorded(sequence, ev.subject_of(fact), fact))
    return recorded


def job_after(*payloads: Payload) -> Job:
    """The job after these events of its first attempt (`submitted` comes first by itself)."""
    folded = fold_all(history([(submitted(), 1), *((payload, 1) for payload in payloads)]))
    assert folded is not None
    return folded
