"""What must hold between the places of a job document; a module a subject, a function a rule.

A rule reads a `Draft` and yields violations. `RULES` lists them in the order in which users meet the sections;
`variables.variables_are_few` is not among them, as it counts what stood there before shorthands were written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.rules import (
    diagnoses,
    frameworks,
    hangs,
    lists,
    names,
    paths,
    retries,
    roles,
    sources,
    variables,
)

Rule = Callable[[Draft], Iterator[Violation]]

RULES: Final[tuple[Rule, ...]] = (
    names.one_name_is_given,
    lists.labels_stand_once,
    sources.image_reference_fits_its_source,
    sources.code_has_one_source,
    sources.inline_code_has_files,
    sources.inline_files_do_not_collide,
    paths.mount_paths_are_apart,
    paths.tensorboard_is_on_a_mount,
    paths.checkpoint_is_on_a_mount,
    variables.secrets_are_few,
    variables.secrets_are_no_variables,
    roles.count_is_right,
    roles.names_stay_apart,
    roles.host_names_fit,
    roles.pools_are_named,
    roles.completion_names_a_role,
    frameworks.a_template_has_one_master,
    frameworks.the_hostfile_has_its_place,
    retries.failure_policy_has_its_conditions,
    retries.something_triggers_a_retry,
    retries.exit_codes_stand_once,
    retries.messages_can_match,
    hangs.silence_is_long_enough,
    hangs.phases_are_few,
    hangs.a_retry_on_hang_can_happen,
    diagnoses.a_retry_on_diagnosis_failure_can_happen,
    lists.excluded_nodes_stand_once,
)
