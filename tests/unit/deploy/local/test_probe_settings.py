"""Wrong settings of the probe are refused before the platform starts."""

from __future__ import annotations

import sys

import pytest

from deploy.local.probe_settings import refuse_wrong_faults, refuse_wrong_python
from shared.variables import SettingsError


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ("n-1=bogus", "n-1=bogus names no fault; write NODE_ID=checksum|disk|silent"),
        ("n-1=disk, n-9=disk", "there is no node n-9; the ids are n-1, n-2"),
        ("n-1", "n-1 names no fault"),
    ],
)
def test_a_fault_that_no_node_could_show_is_refused_with_what_would_be_right(faults: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        refuse_wrong_faults({"TRAINMASTER_PROBE_FAULTS": faults}, ["n-2", "n-1"])
    assert refused.value.message.startswith("TRAINMASTER_PROBE_FAULTS: ")
    assert said in refused.value.message


def test_an_interpreter_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no program /nonexistent"):
        refuse_wrong_python({"TRAINMASTER_PROBE_PYTHON": "/nonexistent"})


@pytest.mark.parametrize(
    "environ", [{}, {"TRAINMASTER_PROBE_FAULTS": "n-1=disk,", "TRAINMASTER_PROBE_PYTHON": sys.executable}]
)
def test_right_settings_and_none_are_accepted(environ: dict[str, str]) -> None:
    refuse_wrong_faults(environ, ["n-1"])
    refuse_wrong_python(environ)
