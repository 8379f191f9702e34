"""The report as a whole."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from deploy.local.doctor.command import checks, doctor, report, worst
from deploy.local.doctor.finding import Finding, Verdict, examined, fail, ok, warn
from deploy.local.home import Home
from trainmaster.cli.main import PLUGINS


def test_every_check_names_its_finding_as_it_is_listed(tmp_path: Path):
    for name, check in checks(Home(tmp_path), 0).items():
        assert examined(name, check).check == name


def test_a_check_that_stumbles_is_a_finding_and_the_others_go_on():
    def broken() -> Finding:
        raise PermissionError("no")

    found = examined("gpus", broken)
    assert (found.check, found.verdict) == ("gpus", Verdict.WARN)
    assert "PermissionError" in found.message


def test_the_worst_finding_is_the_verdict():
    assert worst([ok("a", ""), warn("b", "", ""), fail("c", "", ""), ok("d", "")]) is Verdict.FAIL
    assert worst([ok("a", ""), warn("b", "", "")]) is Verdict.WARN


def test_json_has_a_verdict_and_every_finding(tmp_path: Path):
    done = CliRunner().invoke(doctor, ["--home", str(tmp_path), "-o", "json"], standalone_mode=False)
    answer = json.loads(done.output)
    assert answer["verdict"] in ("ok", "warn", "fail")
    assert [one["check"] for one in answer["findings"]] == list(checks(Home(tmp_path), 1))
    assert all(one["mend"] for one in answer["findings"] if one["verdict"] != "ok")
    assert done.return_value == (1 if answer["verdict"] == "fail" else 0)
    assert list(tmp_path.iterdir()) == []


def test_what_mends_stands_below_what_is_found():
    from io import StringIO

    from trainmaster.rendering.style import console

    stream = StringIO()
    console(stream, {}).print(report([ok("disk", "73Gi free"), warn("clock", "wrong", "timedatectl set-ntp true")]))
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert lines[1:] == [
        "ok    disk   73Gi free",
        "warn  clock  wrong",
        "             mend: timedatectl set-ntp true",
        "",
        "1 ok, 1 warn",
    ]


def test_the_command_line_lists_it():
    assert "doctor" in PLUGINS
