"""Every rule of the catalogue holds where its samples say, and no other rule takes its lines away."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from services.watchdog.catalogue import built_in_rules, preset_rows, violations_in
from services.watchdog.domain.lines import LineTest
from services.watchdog.domain.rules import FailureClass, Rule, Severity

RULES = built_in_rules()
PRESETS = preset_rows()
TESTS = [(rule, LineTest.of(rule.line_rule)) for rule in RULES]

BENIGN = yaml.safe_load((Path(__file__).parents[4] / "support" / "benign_lines.yaml").read_text())


def test_the_catalogue_is_without_fault() -> None:
    assert list(violations_in(RULES)) == []
    assert list(violations_in(PRESETS)) == []


def test_ids_are_used_once() -> None:
    ids = [rule.id for rule in (*RULES, *PRESETS)]
    assert len(ids) == len(set(ids))
    assert len(RULES) >= 110


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_wins_the_lines_that_are_its_samples(rule: Rule) -> None:
    assert [_winner(sample) for sample in rule.matches] == [rule.id] * len(rule.matches)
    assert rule.non_matches


@pytest.mark.parametrize("family", BENIGN)
def test_a_benign_line_is_no_verdict(family: str) -> None:
    """A rule of class info may note it; nothing else may hold."""
    held = [rule for rule, test in TESTS if test.holds(BENIGN[family].encode())]
    assert [rule.id for rule in held if rule.failure_class is not FailureClass.INFO] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_severity_goes_with_the_class(rule: Rule) -> None:
    assert (rule.severity is Severity.INFO) is (rule.failure_class is FailureClass.INFO)
    assert rule.advice.endswith((".", "!"))


@pytest.mark.parametrize(
    "line",
    [
        "NCCL WARN ncclOsSocketProgressOpt: Call to recv from 10.0.0.1<44> failed : Connection reset by peer",
        "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_bond_0:1, curr state INIT",
        "NCCL WARN NET/IB: Got completion from peer 10.1.1.1<5> with status=12 opcode=0 len=0 vendor err 129 (Send)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB.",
        "torch.AcceleratorError: CUDA error: device-side assert triggered",
    ],
)
def test_what_libraries_print_today_is_known(line: str) -> None:
    assert _winner(line) is not None


def test_there_are_the_seven_rows_of_the_document() -> None:
    """They are part of the public contract and matched as written."""
    rows = [[fragment.text for fragment in rule.line_rule.any_of[0]] for rule in PRESETS]
    assert rows == [
        ["torch.distributed.DistBackendError"],
        ["ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely"],
        ["socketProgress: Connection closed by remote peer"],
        ["RuntimeError: Gloo connectFullMesh failed with"],
        ["NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"],
        ["socketProgressOpt: Call to recv from", "failed : Connection reset by peer"],
        ["Watchdog caught collective operation timeout", "WorkNCCL"],
    ]
    assert not any(rule.ignore_case for rule in PRESETS)


def _winner(line: str) -> str | None:
    return next((rule.id for rule, test in TESTS if test.holds(line.encode())), None)
