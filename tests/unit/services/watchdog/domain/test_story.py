"""What became of a job is told in a few sentences, from its events alone."""

from __future__ import annotations

import pytest

from services.watchdog.domain.story import ATTEMPTS_TOLD, story_of
from shared import events as ev
from shared.clock import rfc3339
from shared.jobs import Job, fold_all
from tests.support.jobs import START, history, job_after, placed, submitted

FIRST = ev.ReplicaRef(role="worker", index=0)
CAUSE = ev.Cause(
    rule="cuda-ecc", failure_class="node", advice="Have the card reset.", replica=FIRST, node="n-1", line="ECC error"
)
AGAIN = ev.RetryDecided(
    retry=True,
    reason="worker-0 ended with exit code 3; cuda-ecc in worker-0 speaks against node n-1",
    cause=CAUSE,
    exclude_nodes=("n-1",),
    progress=ev.Progress(epoch=2, step=70),
    others=("worker-1 ended with exit code 1", "worker-1 printed x"),
)
NO_MORE = ev.RetryDecided(retry=False, reason="worker-0 ended with exit code 3; all 2 retries are used up", cause=CAUSE)
ENDED = ev.AttemptEnded(reason=ev.EndReason.FAILED, first_failure=FIRST, exit=ev.ReplicaExit(code=3))


def ended_job(*decisions: ev.RetryDecided, last: ev.Payload) -> Job:
    told: list[tuple[ev.Payload, int]] = [(submitted(), 1)]
    for number, decision in enumerate(decisions, start=1):
        told += [(placed(), number), (ev.Started(), number), (ENDED, number), (decision, number)]
        told += [(ev.Queued(), number + 1)] if decision.retry else []
    job = fold_all(history([*told, (last, len(decisions))]))
    assert job is not None
    return job


def test_a_job_that_goes_on_has_no_story_yet() -> None:
    assert story_of(job_after(placed(), ev.Started())) == ()


def test_the_story_of_a_job_that_was_tried_again_in_vain() -> None:
    story = story_of(ended_job(AGAIN, NO_MORE, last=ev.Failed(reason="failed")))
    assert story[0].startswith("demo failed at ")
    assert story[0].endswith("after 2 attempts.")
    assert story[1] == "Attempt 1 ended after 1s: worker-0 ended with exit code 3."
    assert story[2] == 'Its root cause is cuda-ecc (node) in worker-0 on node n-1: "ECC error".'
    assert story[3] == "It had come to epoch 2, step 70."
    assert story[4] == "Others said: worker-1 ended with exit code 1, and 1 more."
    assert story[5] == "Another attempt was made, without n-1: cuda-ecc in worker-0 speaks against node n-1."
    assert story[-2] == "There was no further attempt: all 2 retries are used up."
    assert story[-1] == "What to do: Have the card reset."


def test_of_very_many_attempts_the_first_and_the_last_are_told() -> None:
    story = story_of(ended_job(*[AGAIN] * 8, NO_MORE, last=ev.Failed(reason="failed")))
    assert "4 further attempts ended in between." in story
    assert sum(sentence.startswith("Attempt ") for sentence in story) == ATTEMPTS_TOLD


def test_a_job_that_was_stopped_says_by_whom() -> None:
    job = fold_all(history([(submitted(), 1), (ev.StopRequested(by="ada"), 1), (ev.Stopped(), 1)]))
    (sentence,) = story_of(job)
    assert sentence.startswith("demo was stopped by ada at ")


EVIDENCE = ev.EvidenceCollected(
    rule="hang",
    noticed_at=START,
    at=START,
    summary="3 of 4 ranks are in all_reduce (c10d.py:1); worker-3 is in load (data.py:12)",
    digest="sha256:ab",
    outliers=tuple(f"worker-{index} is in load (data.py:12)" for index in range(3, 8)),
)


@pytest.mark.parametrize("reason", [ev.EndReason.HANG, ev.EndReason.STOPPED])
def test_of_a_hang_the_outliers_are_named_and_how_to_read_the_evidence(reason: ev.EndReason) -> None:
    end = ev.AttemptEnded(reason=reason)
    last = ev.Stopped() if reason is ev.EndReason.STOPPED else ev.Failed(reason="hang")
    told = [(placed(), 1), (ev.Started(), 1), (EVIDENCE, 1), (end, 1), (last, 1)]
    job = fold_all(history([(submitted(), 1), *told]))
    story = story_of(job)
    at = story.index(f"Evidence of hang, taken at {rfc3339(START)}: {EVIDENCE.summary}.")
    first, how = story[at + 1 : at + 3]
    assert first.startswith("Look first at worker-3 is in load (data.py:12); worker-4 is")
    assert first.endswith("; and 2 more.")
    assert how == "Stacks and states of all ranks: trainmaster evidence demo --attempt 1"


def test_nodes_are_called_by_their_names_and_advice_ends_with_one_full_stop() -> None:
    role = ev.RolePlacement(role="worker", pool="p-public", nodes=("n-1",), node_names=("gpu-7",), node_of=(0,))
    where = ev.Placed(cluster="main", roles=(role,))
    no_more = NO_MORE.model_copy(update={"reason": "how; not again: Mend it."})
    told = [(submitted(), 1), (where, 1), (ev.Started(), 1), (ENDED, 1), (AGAIN, 1), (ev.Queued(), 2)]
    told += [(where, 2), (ev.Started(), 2), (ENDED, 2), (no_more, 2), (ev.Failed(reason="failed"), 2)]
    job = fold_all(history(told))
    assert job is not None
    story = story_of(job)
    assert 'Its root cause is cuda-ecc (node) in worker-0 on node gpu-7: "ECC error".' in story
    assert any(sentence.startswith("Another attempt was made, without gpu-7: ") for sentence in story)
    assert "There was no further attempt: not again: Mend it." in story
