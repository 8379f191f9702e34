from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.job_documents import JOB_ID, event_document, job_document
from trainmaster.decoding import Fields
from trainmaster.documents import Explanation, Job, JobEvent
from trainmaster.errors import UnexpectedAnswerError


class TestJob:
    def test_a_job_document_is_read_whole(self) -> None:
        job = Job.of(job_document())
        assert (job.id, job.name, job.owner, job.state, job.replica_count) == (
            JOB_ID,
            "mnist-ddp",
            "ada",
            "Succeeded",
            2,
        )
        assert job.ended
        assert job.ended_at is not None
        assert job.submitted_at is not None
        assert job.ended_at - job.submitted_at == timedelta(seconds=191.5)

    def test_each_replica_knows_its_place_and_exit(self) -> None:
        replica = Job.of(job_document()).attempts[0].replicas[1]
        assert (replica.name, replica.pool, replica.node, replica.devices) == (
            "worker-1",
            "public-main",
            "node-1",
            ("GPU-1",),
        )
        assert replica.exit is not None
        assert (replica.exit.code, replica.exit.signal) == (0, None)

    def test_a_job_that_waits_has_no_placement_yet(self) -> None:
        waiting = {"number": 1, "queuedAt": "2026-01-02T12:00:00Z", "placement": None, "replicas": [], "decision": None}
        job = Job.of(job_document("Queued", startedAt=None, endedAt=None, attempts=[waiting]))
        assert not job.ended
        assert job.attempts[0].replicas == ()
        assert job.attempts[0].decision is None

    def test_what_a_newer_platform_adds_is_kept_in_the_document(self) -> None:
        document = job_document(novelty=1)
        assert Job.of(document).document["status"]["novelty"] == 1

    def test_a_document_of_another_shape_is_an_error(self) -> None:
        with pytest.raises(UnexpectedAnswerError, match="/status/attempts"):
            Job.of(job_document(attempts={"1": {}}))


class TestJobEvent:
    @pytest.mark.parametrize(
        ("written", "name"),
        [("job.placed", "placed"), ("attempt.ended", "attempt.ended"), ("stop.requested", "stop.requested")],
    )
    def test_its_name_is_the_type_without_the_dressing(self, written: str, name: str) -> None:
        assert JobEvent.of(event_document(written), 3).name == name

    @pytest.mark.parametrize(
        ("name", "state"), [("job.succeeded", "Succeeded"), ("job.failed", "Failed"), ("job.stopped", "Stopped")]
    )
    def test_the_last_event_says_how_the_job_ended(self, name: str, state: str) -> None:
        assert JobEvent.of(event_document(name)).final_state == state

    @pytest.mark.parametrize("name", ["job.started", "attempt.ended", "job.deleted", "novelty.happened"])
    def test_all_others_do_not(self, name: str) -> None:
        assert JobEvent.of(event_document(name)).final_state is None


def test_an_explanation_keeps_zero_apart_from_nothing() -> None:
    answer = Explanation.of({"position": 0, "blockers": [{"resource": "gpu", "needed": 2, "available": 0, "total": 4}]})
    assert answer.position == 0
    assert (answer.blockers[0].needed, answer.blockers[0].available, answer.blockers[0].total) == (2, 0, 4)
    assert Explanation.of(dict(Fields({}).document)).position is None
