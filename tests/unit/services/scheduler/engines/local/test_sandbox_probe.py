from __future__ import annotations

from pathlib import Path

from services.scheduler.engines.local.sandbox_probe import needed_paths


def test_interpreter_and_runner_are_needed_wherever_they_are():
    needed = needed_paths(Path("/opt/py/bin/python3.11"), Path("/srv/app/local"), "")

    assert set(needed) == {Path("/opt/py/bin/python3.11"), Path("/opt/py/lib"), Path("/srv/app/local")}


def test_of_programs_on_path_only_those_in_places_of_the_sandbox_s_own_are_listed():
    needed = needed_paths(Path("/usr/bin/python3"), Path("/srv"), "/usr/bin:/tmp/clone/.venv/bin:/run/tools:relative")

    assert set(needed[3:]) == {Path("/tmp/clone/.venv"), Path("/run/tools")}
