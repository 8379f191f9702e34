"""Three jobs with the same rule at the same place within five minutes are one incident of the platform."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.watchdog.domain.outages import WINDOW_S, Place, Sighting, counts, places_of, suspect
from shared import events as ev
from shared.events import IncidentRaised
from tests.support.jobs import START, job_after, placed, submitted

NODE = Place("node", "n-1")


def seen(*jobs_at_s: tuple[str, float]) -> list[Sighting]:
    return [Sighting(number, job, START + timedelta(seconds=at_s)) for number, (job, at_s) in enumerate(jobs_at_s, 7)]


def found(*jobs_at_s: tuple[str, float]) -> tuple[tuple[str, ...], int] | None:
    sightings = seen(*jobs_at_s)
    outage = suspect("xid", NODE, sightings, "Xid 79", sightings[-1].at)
    return (outage[0].jobs, outage[1]) if outage else None


def test_three_jobs_make_an_outage_that_is_named_after_its_first_record() -> None:
    assert found(("a", 0), ("b", 10), ("c", WINDOW_S)) == (("a", "b", "c"), 7)


def test_one_job_that_says_it_often_makes_none() -> None:
    assert found(("a", 0), ("a", 1), ("b", 2), ("b", 3)) is None


def test_what_lies_further_back_than_the_window_does_not_count() -> None:
    assert found(("a", 0), ("b", 10), ("c", WINDOW_S + 1)) is None


@pytest.mark.parametrize(
    ("rule", "does"), [("hang", True), ("xid-79", True), ("message/1", False), ("hang/warning", False)]
)
def test_only_what_means_the_same_in_every_job_counts(rule: str, does: bool) -> None:
    assert counts(IncidentRaised(rule=rule, line="")) is does


def test_places_are_the_nodes_of_the_replica_its_leaf_storages_and_the_image() -> None:
    job = job_after(placed())
    resolved = ev.Resolved(
        cluster="main",
        roles=job.submitted.resolved.roles,
        mounts=(
            ev.ResolvedMount(mount_path="/a", type="storage", source="team", uri="file:///x"),
            ev.ResolvedMount(mount_path="/b", type="dataset", source="set", uri="file:///y"),
        ),
        image=ev.ResolvedImage(source="address", address="pytorch:2"),
    )
    job = job.model_copy(update={"submitted": submitted(resolved=resolved)})
    incident = IncidentRaised(rule="xid", line="", replica=ev.ReplicaRef(role="worker", index=1))
    assert places_of(job, job.attempt, incident, {"n-1": "leaf-3", "n-2": "leaf-4"}) == (
        NODE,
        Place("leaf", "leaf-3"),
        Place("storage", "team"),
        Place("image", "pytorch:2"),
    )
