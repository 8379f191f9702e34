"""How nodes are diagnosed by the instance types that are placed on them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from services.diagnoser.domain.profiles import profile_of, profiles_of
from services.diagnoser.domain.stages import Profile, Timing
from shared.catalog.diagnosis import DiagnosisProfile
from tests.support import jobs

DOCUMENT = {
    "stages": {"compute": False, "hostDevice": False},
    "floors": {"bf16Tflops": 600, "pairGbS": 20, "cpuMs": 150.5},
    "messages": ["1Mi", "64Mi"],
    "seconds": {"compute": 30, "pairs": 0.5},
}


def test_a_document_says_which_stages_are_off_and_what_is_good_at_least() -> None:
    profile = profile_of(DiagnosisProfile.model_validate(DOCUMENT))
    assert profile.off == {"compute", "hostDevice"}
    assert profile.floors == {"bf16Tflops": 600, "pairMbS": 20_000, "cpuMs": 150.5}
    assert profile.message_sizes(gpu=True) == (1 << 20, 64 << 20)


def test_a_document_says_how_long_tests_of_a_stage_measure_and_waiting_for_them_is_as_much_longer() -> None:
    profile, usual = profile_of(DiagnosisProfile.model_validate(DOCUMENT)), Profile()
    assert profile.timing("compute", gpu=True) == Timing(30, 60)
    assert profile.timing("exchange", gpu=False).work_s == 0.5
    for test in ("memory", "gang", "begin"):
        assert profile.timing(test, gpu=True) == usual.timing(test, gpu=True)
    with pytest.raises(ValidationError, match="less than or equal to 120"):
        DiagnosisProfile.model_validate({"seconds": {"compute": 121}})


def test_without_a_document_everything_is_made() -> None:
    assert profile_of(None) == Profile()


def test_where_types_share_a_node_what_any_wants_is_made_and_the_stricter_floor_holds() -> None:
    one = Profile(frozenset({"compute", "pairs"}), {"pairMbS": 10.0, "cpuMs": 100.0}, (), {"gang": 5, "pairs": 2})
    other = Profile(frozenset({"compute"}), {"pairMbS": 20.0, "cpuMs": 200.0}, (1 << 20,), {"gang": 3})
    assert Profile.merged((one, other)) == Profile(
        frozenset({"compute"}), {"pairMbS": 20.0, "cpuMs": 100.0}, (1 << 20,), {"gang": 5, "pairs": 2}
    )


def test_a_node_has_the_profiles_of_the_types_that_are_placed_on_it() -> None:
    job = jobs.job_after(jobs.submitted(), jobs.placed())
    (instance_type,) = {role.instance_type for role in job.submitted.resolved.roles}
    profiles = {instance_type: Profile(frozenset({"gang"}))}
    assert profiles_of(job, profiles.__getitem__) == {"n-1": Profile(frozenset({"gang"}))}
