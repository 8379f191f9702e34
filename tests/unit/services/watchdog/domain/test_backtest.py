"""Rules are tried on logs that are there already."""

from __future__ import annotations

from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain import torchrun
from services.watchdog.domain.backtest import MATCHES_MAX, Log, Outcome, Trial, try_out
from services.watchdog.domain.rootcause import Catalogue
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import LineRule
from services.watchdog.domain.terms import Terms
from shared.events import ReplicaRef
from shared.jobspec.models import Retry

RULES = (*preset_rows(), *built_in_rules())
CATALOGUE = Catalogue.of(built_in_rules(), preset_rows())
BOOK = Rulebook([*(rule.line_rule for rule in RULES), torchrun.HEADER])
ADVANCED = Terms.with_retry(Retry.model_validate({"maxRetries": 1, "on": {"failure": {"policy": "Advanced"}}}))


def outcome(*texts: str, exit_code: int = 1) -> Outcome:
    logs = [Log(ReplicaRef(role="worker", index=index), text.encode()) for index, text in enumerate(texts)]
    return try_out(logs, exit_code, ADVANCED, BOOK, CATALOGUE)


def test_every_line_on_which_a_rule_holds_is_told_with_its_number_and_who_wins() -> None:
    found = outcome(
        "fine\n\x1b[31mCUDA out of memory. Tried to allocate 2 GiB\x1b[0m\nok\rCUDA out of memory. Tried to allocate\n"
    )
    assert [(match.rule, match.number, match.wins) for match in found.matches] == [
        ("cuda-oom", 2, True),
        ("cuda-oom", 4, True),
    ]
    assert found.classes["cuda-oom"] == "user"
    assert (found.decision.retry, found.decision.cause.rule) == (False, "cuda-oom")


def test_of_rules_on_one_line_the_first_wins() -> None:
    found = outcome("RuntimeError: Gloo connectFullMesh failed with x\n")
    assert [(match.rule, match.wins) for match in found.matches] == [
        ("preset/gloo-connect", True),
        ("gloo-fullmesh", False),
    ]
    assert (found.decision.retry, found.decision.rule) == (True, "preset/gloo-connect")


def test_the_exit_code_counts_where_the_log_says_nothing() -> None:
    assert outcome("hello\n", exit_code=127).decision.cause.rule == "fact/command-not-found"
    assert outcome("hello\n").decision.cause is None
    assert outcome("").matches == ()


def test_a_node_at_fault_would_be_left_out() -> None:
    decision = outcome("x", "uncorrectable ECC error encountered\n").decision
    assert decision.exclude_nodes
    assert "speaks against node of worker-1, which" in decision.reason


def test_of_very_many_matches_only_so_many_are_listed() -> None:
    found = outcome("command not found\n" * (MATCHES_MAX + 5))
    assert (len(found.matches), found.more) == (MATCHES_MAX, 5)


def test_rules_that_admins_only_try_are_not_shown() -> None:
    book = Rulebook([LineRule.of_texts("in-shadow", "boom"), LineRule.of_texts("message/1", "boom")])
    assert Trial(book, CATALOGUE).holding(b"boom") == ["message/1"]


def test_times_put_the_logs_in_order_and_say_what_was_survived() -> None:
    reset = b"NCCL WARN socketProgressOpt: Call to recv from 10.0.0.1<4> failed : Broken pipe\n"
    oom = b"CUDA out of memory. Tried to allocate 2 GiB\n"
    first, second = (ReplicaRef(role="worker", index=index) for index in (0, 1))
    chatty = b"chatter\n" * 500 + oom

    def cause(*logs: Log) -> str:
        return try_out(logs, 1, ADVANCED, BOOK, CATALOGUE).decision.cause.rule

    assert cause(Log(first, reset), Log(second, chatty)) == "nccl-socket-reset"
    assert cause(Log(first, reset, ((1, 9_000),)), Log(second, chatty, ((1, 1_000), (501, 8_000)))) == "cuda-oom"
    survived = reset + b"step 1\nstep 2\n" + oom
    assert cause(Log(first, survived)) == "nccl-socket-reset"
    assert cause(Log(first, survived, ((1, 1_000), (2, 100_000), (4, 120_000)))) == "cuda-oom"
