"""What is told of nodes that an attempt failed on, and where."""

from __future__ import annotations

from services.watchdog.domain.suspicion import suspicions
from shared import events as ev
from shared.catalog import Cluster
from tests.support.jobs import START, job_after, placed


def decided(**cause: object) -> ev.RetryDecided:
    given = {"rule": "cuda-ecc", "class": "node", "node": "n-1", **cause}
    return ev.RetryDecided.model_validate({"retry": False, "reason": "a node", "cause": given})


def test_the_node_is_told_of_with_its_cluster_by_name_on_the_subject_of_both() -> None:
    job = job_after(placed(1), ev.Started())
    ((event, subject),) = suspicions(job, decided(line="ECC"), START)
    fact = event.data
    assert isinstance(fact, ev.NodeSuspected)
    assert (fact.cluster, fact.node, fact.job, fact.rule, fact.line) == ("main", "n-1", job.id, "cuda-ecc", "ECC")
    assert subject == f"tm.node.{Cluster.id_of('main')}.n-1.suspected"


def test_causes_that_speak_against_no_node_say_nothing() -> None:
    job = job_after(placed(1), ev.Started())
    assert list(suspicions(job, decided(**{"class": "user"}), START)) == []
    assert list(suspicions(job, decided(node=None), START)) == []
