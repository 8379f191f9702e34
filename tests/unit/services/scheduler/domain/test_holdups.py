"""Why replicas do not run yet, in one sentence."""

from __future__ import annotations

from services.scheduler.domain.holdups import holdups_sentence


def test_nothing_is_said_where_nothing_waits():
    assert not holdups_sentence({})


def test_replicas_with_one_reason_are_told_together_and_the_most_frequent_reason_first():
    reasons = {"master-0": "no such image", "worker-0": "no room", "worker-1": "no room"}
    assert holdups_sentence(reasons) == "worker-0, worker-1: no room; master-0: no such image"


def test_of_many_replicas_and_reasons_the_first_few_are_told():
    assert holdups_sentence({f"w-{index}": "x" for index in range(5)}) == "w-0, w-1, w-2, and 2 more replicas: x"
    assert holdups_sentence({f"w-{index}": f"r{index}" for index in range(4)}).endswith("w-2: r2; and 1 more reason")


def test_replicas_are_told_in_their_order_whatever_order_they_are_known_in():
    reasons = {"worker-10": "x", "worker-9": "x", "master-0": "x"}
    assert holdups_sentence(reasons) == "master-0, worker-9, worker-10: x"
