"""The log of incidents: jobs that are hit join an outage, whether they come before or after it is on record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from services.watchdog.adapters.incident_log import IncidentLog, IncidentQuery
from services.watchdog.domain.outages import WINDOW_S, Place
from shared.events import Deleted, Event, IncidentRaised, OutageSuspected
from shared.jobs import Recorded
from tests.support.jobs import START, event

NODE = Place("node", "n-1")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[IncidentLog]:
    made = IncidentLog(tmp_path / "incidents.sqlite")
    made.open("today", 100, 10)
    yield made
    made.close()


def hit(log: IncidentLog, sequence: int, job: str, at_s: float) -> None:
    incident = IncidentRaised(rule="xid", line="Xid", at=START + timedelta(seconds=at_s))
    log.put(Recorded(sequence, "", event(incident, job, part=str(sequence))), incident, (NODE,))


def suspected(log: IncidentLog, sequence: int, *jobs: str) -> None:
    at = START + timedelta(seconds=20)
    outage = OutageSuspected(rule="xid", place_kind="node", place="n-1", jobs=jobs, since=START, at=at)
    told = Event.of(outage, job="platform", attempt=0, time=at, owner="", project="", part="1")
    log.put_outage(Recorded(sequence, "", told), outage)


def test_a_job_that_was_hit_while_the_outage_was_on_its_way_belongs_to_it(log: IncidentLog) -> None:
    for sequence, job in enumerate("abcd", start=1):
        hit(log, sequence, job, sequence)
    suspected(log, 5, "a", "b", "c")
    suspected(log, 6, "a", "b", "c")
    (outage,) = log.outages(None, 10)
    assert outage.jobs == ("a", "b", "c", "d")


def test_a_job_that_is_hit_later_joins_and_one_after_a_quiet_time_does_not(log: IncidentLog) -> None:
    hit(log, 1, "a", 0)
    suspected(log, 2, "a", "b", "c")
    hit(log, 3, "d", 20 + WINDOW_S)
    assert log.has_open_outage("xid", NODE, START + timedelta(seconds=20 + 2 * WINDOW_S))
    hit(log, 4, "e", 21 + 2 * WINDOW_S)
    (outage,) = log.outages(None, 10)
    assert outage.jobs == ("a", "b", "c", "d")


def test_a_log_of_another_stream_is_begun_anew(log: IncidentLog, tmp_path: Path) -> None:
    hit(log, 7, "a", 0)
    log.close()
    for stream, sequence in (("today", 7), ("another", 0)):
        again = IncidentLog(tmp_path / "incidents.sqlite")
        again.open(stream, 100, 10)
        assert again.sequence == sequence
        again.close()


def test_of_archived_events_only_what_is_missing_is_kept_and_they_do_not_move_the_position(
    log: IncidentLog, tmp_path: Path
) -> None:
    hit(log, 5, "a", 0)
    incident = IncidentRaised(rule="xid", line="Xid", at=START)
    bundle = [Recorded(number, "", event(incident, "a", part=str(number))) for number in (3, 5)]
    log.put_archived(1, bundle)
    assert [each.sequence for each in log.incidents(IncidentQuery())] == [5, 3]
    assert (log.sequence, log.archived) == (5, 1)
    log.put_archived(2, [Recorded(6, "", event(Deleted(by="ada"), "a"))])
    assert log.incidents(IncidentQuery()) == []
    log.close()
    again = IncidentLog(tmp_path / "incidents.sqlite")
    again.open("today", 100, 2)
    assert (again.sequence, again.archived) == (5, 2)
    again.open("today", 100, 1)
    assert (again.sequence, again.archived) == (0, 0)
    again.close()
