"""What tests make of the belief in a part, and how it fades."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.beliefs import NODE_IS_BAD, RED, SHOWS, SUSPECT, Belief


def test_before_any_test_a_part_is_as_likely_bad_as_any() -> None:
    assert abs(Belief().suspicion - NODE_IS_BAD) < 1e-9


def test_one_failure_makes_a_suspect_and_two_more_make_it_red() -> None:
    once = Belief().after(fails=1)
    assert SUSPECT <= once.suspicion < RED <= once.after(fails=2).suspicion


def test_successes_clear_a_part_slower_the_rarer_its_fault_shows() -> None:
    weights = Belief().after(fails=1, passes=6).weights
    assert weights[1] < weights[2] < weights[3] < weights[4]


def test_evidence_is_half_gone_after_three_days() -> None:
    belief = Belief().after(fails=2)
    faded = belief.faded(72)
    assert [round(2 * each, 6) for each in faded.evidence] == [round(each, 6) for each in belief.evidence]
    assert faded.fails == 1


def test_a_long_clean_record_does_not_hide_a_new_fault() -> None:
    assert Belief().after(passes=1000).after(fails=3).suspicion > RED


def test_what_is_learned_of_posterior_weights_gives_them_back() -> None:
    belief = Belief().after(fails=1, passes=2)
    again = Belief().learned(belief.weights, 1.0)
    assert all(abs(one - other) < 1e-9 for one, other in zip(belief.weights, again.weights, strict=True))


def test_there_is_a_weight_for_good_and_for_each_way_of_being_bad() -> None:
    weights = Belief().after(fails=1).weights
    assert len(weights) == len(SHOWS) + 1
    assert abs(sum(weights) - 1) < 1e-9


@pytest.mark.parametrize("passes", [0, 5, 100])
def test_a_weak_sign_makes_a_suspect_of_what_has_passed_tests_too(passes: int) -> None:
    doubted = Belief().after(passes=passes).doubted()
    assert doubted.is_suspect
    assert doubted.suspicion < Belief().after(fails=1).suspicion
