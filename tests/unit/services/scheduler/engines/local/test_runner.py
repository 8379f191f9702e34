from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from services.scheduler.engines.local import runner


@pytest.mark.parametrize(
    ("in_group", "on_machine", "killed", "verdict"),
    [
        (1, 1, True, "certain"),
        (1, 0, False, "certain"),
        (0, 1, True, "none"),
        (None, 1, True, "suspected"),
        (None, 1, False, "none"),
        (None, 0, True, "none"),
    ],
)
def test_memory_is_blamed_as_far_as_the_counters_allow(
    in_group: int | None, on_machine: int, killed: bool, verdict: str
):
    assert runner.oom_verdict(in_group, on_machine, killed=killed) == verdict


def test_the_counter_is_found_by_its_whole_name():
    assert runner.count_in(b"oom_kill_disable 7\noom_group_kill 8\noom_kill 2\n") == 2
    assert runner.count_in(b"") == 0


def test_times_are_rfc_3339_with_milliseconds():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", runner.now())


def test_an_order_keeps_arguments_and_values_as_they_are():
    order = runner.Order(["/code", "100", "3", "sh", "-c", "", "A=", "B=x=y"])

    assert (order.directory, order.nofile) == ("/code", 100)
    assert order.arguments == ["sh", "-c", ""]
    assert order.environment == {"A": "", "B": "x=y"}


def test_descendants_are_found_in_proc():
    with subprocess.Popen(["sleep", "1000"]) as child:
        found = runner.descendants()
        child.kill()

    assert child.pid in found
    assert os.getpid() not in found


def test_it_stays_one_short_file_that_needs_only_the_standard_library():
    source = Path(runner.__file__).read_text()
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", source, re.MULTILINE))

    assert len(source.splitlines()) < 300
    assert imported <= sys.stdlib_module_names
