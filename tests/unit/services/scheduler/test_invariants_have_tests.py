"""The 25 invariants of a scheduler of gangs, and which tests hold each of them.

Those of the planner are also held over whole histories by `domain/planning/test_invariants.py`, where they are methods
of a state machine. A name here is that of a test, or of an invariant or check of a state machine, somewhere under
`tests`; one that was renamed has to be renamed here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[3]
NAMES: Final = frozenset(
    name
    for file in TESTS.rglob("*.py")
    for name in re.findall(r"^ *(?:async )?def (\w+)\(", file.read_text(), re.MULTILINE)
)

INVARIANTS: Final[dict[int, tuple[str, tuple[str, ...]]]] = {
    1: (
        "capacity: what is held on a node is never more than it has",
        (
            "check",
            "test_started_gangs_are_whole_and_fit_together",
            "test_what_is_placed_fits_in_the_rooms_that_there_are",
        ),
    ),
    2: (
        "conservation: free is capacity less what is held, and incremental counts are those of a rebuild",
        (
            "free_is_capacity_less_what_is_held",
            "counts_are_those_of_a_rebuild",
            "test_counts_follow_every_change_and_are_those_of_a_rebuild",
        ),
    ),
    3: (
        "all or nothing, also after a crash at any write",
        (
            "every_gang_is_whole_and_in_its_pools",
            "test_killed_at_any_call_of_a_start_the_gang_still_runs_once",
            "test_several_transitions_are_written_together",
        ),
    ),
    4: ("no device has two owners", ("no_device_has_two_owners", "test_devices_are_given_once_and_of_the_right_model")),
    5: (
        "one homogeneous role is placed exactly where the sum of what nodes hold is enough",
        ("test_a_place_is_found_exactly_when_there_is_one",),
    ),
    6: ("eligibility: pool, state, exclusions and GPU model", ("check_places", "every_gang_is_whole_and_in_its_pools")),
    7: (
        "hard topology: one domain, also beside survivors; an unknown level is an error",
        (
            "test_hard_gangs_are_in_one_named_domain",
            "test_a_hard_gang_does_not_leave_its_domain",
            "test_one_wrong_place_gives_exactly_its_violation",
        ),
    ),
    8: (
        "tightness: no smaller domain holds it",
        ("test_no_smaller_domain_would_have_held_a_gang_of_one_role",),
    ),
    9: (
        "determinism: the same snapshot gives the same plan in any order",
        ("look", "test_the_same_snapshot_gives_the_same_plan_in_whatever_order_it_is_listed"),
    ),
    10: (
        "work conservation: nobody who fits is left waiting",
        ("check_nobody_was_passed_over", "test_nobody_who_would_still_fit_is_left_waiting_in_a_backfill_pool"),
    ),
    11: (
        "whoever passes the head never moves its reserved start later",
        ("test_what_passes_the_head_never_moves_its_start_later",),
    ),
    12: ("no project holds more than its quota", ("no_project_holds_more_than_its_quota",)),
    13: (
        "fairness: whoever has the turn has the least share, itself counted in",
        ("test_whoever_has_the_turn_has_the_least_share_among_projects_of_the_highest_level",),
    ),
    14: (
        "preemption: lower priorities, all of them needed, and then it fits",
        ("test_evictions_are_of_lower_priority_make_it_fit_and_are_all_needed",),
    ),
    15: (
        "no starvation under a stream of small jobs",
        (
            "test_no_stream_of_small_gangs_starves_a_large_one",
            "test_a_project_with_a_smaller_share_does_not_starve_a_large_gang_for_ever",
        ),
    ),
    16: (
        "retries: exactly as many as asked for; evictions and what the platform lost do not count",
        (
            "test_there_are_exactly_as_many_new_attempts_as_asked_for",
            "test_a_preempted_job_is_queued_again_and_uses_no_retry_even_where_it_asks_for_none",
            "test_what_the_platform_lost_it_makes_up_for_without_using_retries",
        ),
    ),
    17: (
        "idempotence: events that come twice, late or in another order change nothing",
        (
            "test_repeated_events_change_nothing",
            "test_late_and_reordered_observations_do_not_touch_the_states",
            "test_holding_and_releasing_twice_changes_nothing",
            "test_starting_twice_runs_everything_once",
            "test_writing_again_after_a_lost_answer_is_the_same_write",
        ),
    ),
    18: (
        "fencing: a deposed scheduler writes and starts nothing",
        (
            "test_what_a_deposed_scheduler_writes_is_refused",
            "test_another_scheduler_goes_on_and_the_halted_one_changes_nothing_when_it_wakes",
            "test_the_server_refuses_what_a_deposed_scheduler_decided_before_it_was_halted",
        ),
    ),
    19: (
        "release only on confirmed ends",
        (
            "an_end_on_record_means_that_every_replica_has_ended",
            "test_the_end_is_not_on_record_before_every_end_is_confirmed",
            "test_capacity_is_held_from_placement_to_the_confirmed_end",
            "test_capacity_of_a_lost_node_comes_back_with_the_confirmed_end_of_what_ran_there",
        ),
    ),
    20: (
        "one live incarnation of each replica, ranks exactly 0 to n-1, one world size",
        (
            "test_ranks_are_exactly_zero_to_world_size",
            "test_a_scheduler_killed_again_and_again_runs_every_gang_once",
            "test_killed_at_any_call_of_a_start_the_gang_still_runs_once",
        ),
    ),
    21: (
        "names: DNS labels at any index, and no two replicas or variables share one",
        (
            "test_no_two_replicas_share_a_name_and_every_name_is_a_label",
            "test_no_two_roles_write_the_same_variable",
            "test_every_mount_has_a_variable_that_a_shell_can_read",
        ),
    ),
    22: (
        "sizes of variables and events at any size of the gang",
        (
            "test_no_variable_of_the_platform_reaches_the_kernels_limit_at_any_size",
            "test_a_placement_of_ten_thousand_fits_into_an_event",
        ),
    ),
    23: (
        "what has succeeded is not run again because its node is gone",
        (
            "test_a_job_that_succeeded_is_not_run_again_when_its_gang_is_lost",
            "test_a_replica_that_succeeded_has_still_succeeded_when_the_rest_is_lost",
            "test_a_replica_that_exited_stays_so_whatever_order_its_observations_come_in",
        ),
    ),
    24: (
        "every waiting gang has a reason in numbers",
        (
            "test_every_gang_that_does_not_fit_has_a_reason_in_numbers",
            "test_a_job_that_would_fit_is_told_whom_it_waits_for_as_far_as_the_asker_may_know",
            "test_a_quota_of_zero_is_told",
        ),
    ),
    25: (
        "whoever is skipped because its shape has failed would have failed",
        ("check_nobody_was_passed_over", "test_gangs_of_one_shape_after_a_failed_one_still_start_when_they_fit"),
    ),
}


def test_all_of_them_are_here():
    assert sorted(INVARIANTS) == list(range(1, 26))


@pytest.mark.parametrize("number", INVARIANTS)
def test_each_has_tests_that_exist(number: int):
    _, names = INVARIANTS[number]
    assert names
    assert set(names) <= NAMES
