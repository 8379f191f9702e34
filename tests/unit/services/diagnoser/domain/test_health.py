"""Suspect after one job, bad after another one or at once where it is red, good again by passing."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.health import judgement
from shared.events import NodeFinding, NodeJudged

BAD = NodeFinding(node="n-1", problems=("a wrong checksum", "little memory"))
RED = BAD.model_copy(update={"verdict": "red"})
DOUBTFUL = NodeFinding(node="n-1", doubts=("a test with n-2 failed",), verdict="amber")
GOOD = NodeFinding(node="n-1")


def last(health: str, job: str = "tj-a") -> NodeJudged:
    return NodeJudged(cluster="main", node="n-1", health=health, job=job)


@pytest.mark.parametrize(
    ("finding", "before", "job", "health"),
    [
        (BAD, None, "tj-a", "suspect"),
        (BAD, last("good"), "tj-b", "suspect"),
        (BAD, last("suspect"), "tj-a", None),
        (BAD, last("suspect"), "tj-b", "bad"),
        (BAD, last("suspect", job=""), "tj-b", None),
        (BAD, last("bad"), "tj-c", None),
        (GOOD, None, "tj-a", None),
        (GOOD, last("good"), "tj-b", None),
        (GOOD, last("suspect"), "tj-b", "good"),
        (GOOD, last("bad"), "tj-b", "good"),
        (RED, None, "tj-a", "bad"),
        (RED, last("bad"), "tj-a", None),
        (DOUBTFUL, None, "tj-a", "suspect"),
        (DOUBTFUL, last("suspect"), "tj-b", None),
        (DOUBTFUL, last("bad"), "tj-b", None),
    ],
)
def test_what_is_told_of_a_node(finding: NodeFinding, before: NodeJudged | None, job: str, health: str | None):
    judged = judgement(finding, before, job, "main", tested=True)
    assert (judged.health if judged else None) == health


def test_the_reason_and_the_job_are_told():
    judged = judgement(BAD, None, "tj-a", "main", tested=True)
    assert judged is not None
    assert (judged.reason, judged.job) == ("a wrong checksum; little memory", "tj-a")


def test_a_node_that_was_only_looked_at_stays_what_it_was():
    assert judgement(GOOD, last("bad"), "tj-b", "main", tested=False) is None
