"""The first original error over all replicas is the cause; facts of the engine count before and behind it."""

from __future__ import annotations

import pytest

from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain.found import SURVIVED_S, Found, Sighting
from services.watchdog.domain.rootcause import ONLY_SURVIVORS, TOGETHER_MS, Catalogue, fingerprint, root_cause
from services.watchdog.domain.torchrun import ROOT_CAUSE
from shared import events as ev
from shared.events import EndReason, OutOfMemory, ReplicaExit
from shared.jobs import Attempt
from tests.support.jobs import START, job_after

CATALOGUE = Catalogue.of(built_in_rules(), preset_rows())
STOPPED = ReplicaExit(code=143, cause="stopped")
FAILED = ReplicaExit(code=1)


def attempt(*exits: ReplicaExit, reason: EndReason = EndReason.FAILED, first: int | None = 0) -> Attempt:
    """An ended attempt, each replica on a node of its own."""
    nodes = tuple(f"n-{index}" for index in range(len(exits)))
    role = ev.RolePlacement(role="worker", pool="p", nodes=nodes, node_of=tuple(range(len(exits))))
    changes = tuple(
        ev.ReplicaChange(role="worker", index=index, state="exited", at=START, exit=each)
        for index, each in enumerate(exits)
    )
    ref = ev.ReplicaRef(role="worker", index=first) if first is not None else None
    end = ev.AttemptEnded(reason=reason, first_failure=ref, exit=exits[first] if first is not None else None)
    placed = ev.Placed(cluster="main", roles=(role,))
    return job_after(placed, ev.Started(), ev.ReplicasChanged(changes=changes), end).attempt


def line(rule: str, index: int, at_ms: int, text: str = "", offset: int = 0, *, survived: bool = False) -> Found:
    return Found(rule, ev.ReplicaRef(role="worker", index=index), text or rule, at_ms, offset, survived)


def cause(of: Attempt, *lines: Found) -> tuple[str, int | None] | None:
    found = root_cause(of, lines, CATALOGUE)
    return (found.rule, found.replica.index if found.replica else None) if found else None


TWO = attempt(FAILED, STOPPED)


def test_the_first_original_error_by_time_is_the_cause_whoever_failed_first() -> None:
    later, earlier = line("enospc", 0, 50_000), line("cuda-oom", 1, 10_000, "out of memory")
    found = root_cause(TWO, [later, earlier], CATALOGUE)
    assert found is not None
    assert (found.rule, found.failure_class, found.node, found.line) == ("cuda-oom", "user", "n-1", "out of memory")
    assert found.at is not None
    assert found.at.timestamp() == 10
    assert "smaller batch" in found.advice


def test_cascades_and_notes_and_messages_of_users_never_are() -> None:
    lines = [line("gloo-closed", 0, 1), line("loss-overflow", 1, 2), line("message/1", 1, 3), line("enospc", 1, 20_000)]
    assert cause(TWO, *lines) == ("enospc", 1)


def test_what_may_tell_of_another_replica_gives_way_to_what_does_not() -> None:
    assert cause(TWO, line("nccl-socket-reset", 0, 1_000), line("cublas", 1, 9_000)) == ("cublas", 1)
    assert cause(TWO, line("nccl-socket-reset", 0, 1_000), line("cublas", 1, 90_000)) == ("nccl-socket-reset", 0)


def test_of_errors_together_the_more_certain_class_wins_and_then_the_one_that_torchrun_names() -> None:
    assert cause(TWO, line("enospc", 0, 1_000), line("cuda-ecc", 1, 1_000 + TOGETHER_MS)) == ("cuda-ecc", 1)
    assert cause(TWO, line("enospc", 0, 1_000), line("cuda-ecc", 1, 1_001 + TOGETHER_MS)) == ("enospc", 0)
    named = line(ROOT_CAUSE, 0, 5_000, "rank 1 (local_rank: 0), exitcode 1 (pid: 7), host tj-a-1-worker-1")
    forged = line(ROOT_CAUSE, 0, 5_000, "rank 1, host tj-a-1-worker-99")
    both = line("enospc", 0, 1_000), line("enospc", 1, 1_400)
    assert cause(TWO, *both) == ("enospc", 0)
    assert cause(TWO, *both, named) == ("enospc", 1)
    assert cause(TWO, *both, forged) == ("enospc", 0)


def test_of_rules_that_hold_on_one_line_the_first_in_the_catalogue_wins() -> None:
    lines = [line("py-error", 0, 5, "x", 7), line("dns", 0, 5, "x", 7)]
    assert cause(TWO, *lines) == ("dns", 0)
    preset = [line("preset/gloo-connect", 0, 5, "x", 7), line("gloo-fullmesh", 0, 5, "x", 7)]
    assert cause(TWO, *preset) == ("gloo-fullmesh", 0)


def test_an_error_that_was_survived_is_none() -> None:
    assert cause(TWO, line("dns", 0, 1, survived=True), line("cuda-oom", 1, 9_000)) == ("cuda-oom", 1)
    assert cause(TWO, line("dns", 0, 1, survived=True)) is None


def test_of_two_lines_the_first_counts_unless_progress_was_made_after_it() -> None:
    first, last = Sighting("first", 10_000, 1), Sighting("last", 500_000, 2)
    replica = ev.ReplicaRef(role="worker", index=0)
    for progress_at_ms, text, survived in (
        (None, "first", False),
        (10_000 + int(SURVIVED_S * 1000), "first", False),
        (10_001 + int(SURVIVED_S * 1000), "last", False),
        (500_001 + int(SURVIVED_S * 1000), "last", True),
    ):
        found = Found.of("dns", replica, first, last, progress_at_ms)
        assert (found.line, found.survived) == (text, survived)


def test_what_a_launcher_says_of_the_signal_that_we_sent_is_no_cause() -> None:
    assert cause(TWO, line("sig-term", 1, 1)) is None
    assert cause(TWO, line("sig-term", 0, 1)) == ("sig-term", 0)


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        (attempt(ReplicaExit(signal=9, out_of_memory=OutOfMemory.CERTAIN), STOPPED), "fact/out-of-memory"),
        (attempt(ReplicaExit(cause="lost"), STOPPED, reason=EndReason.PLATFORM), "fact/platform"),
        (attempt(STOPPED, STOPPED, reason=EndReason.PREEMPTED, first=None), "fact/preempted"),
        (attempt(STOPPED, STOPPED, reason=EndReason.MAX_RUN_TIME, first=None), "fact/max-run-time"),
        (attempt(STOPPED, STOPPED, reason=EndReason.START_TIMEOUT, first=None), "fact/start-timeout"),
        (attempt(ReplicaExit(cause="never-started"), STOPPED), "fact/never-started"),
        (attempt(ReplicaExit(code=127), STOPPED), "fact/command-not-found"),
        (attempt(ReplicaExit(code=126), STOPPED), "fact/not-executable"),
    ],
)
def test_facts_that_decide_count_before_any_text(of: Attempt, rule: str) -> None:
    found = cause(of, line("cuda-ecc", 0, 1))
    assert found is not None
    assert found[0] == rule


@pytest.mark.parametrize(
    ("exit_status", "rule"),
    [
        (ReplicaExit(signal=11), "fact/sigsegv"),
        (ReplicaExit(code=139), "fact/sigsegv"),
        (ReplicaExit(signal=9), "fact/sigkill"),
        (ReplicaExit(code=143), "fact/sigterm"),
        (ReplicaExit(code=134), "fact/sigabrt"),
        (ReplicaExit(code=135), "fact/sigbus"),
        (ReplicaExit(code=130), "fact/sigint"),
    ],
)
def test_a_signal_counts_where_no_text_says_more(exit_status: ReplicaExit, rule: str) -> None:
    of = attempt(exit_status, STOPPED)
    assert cause(of, line("gloo-closed", 1, 1)) == (rule, 0)
    assert cause(of, line("cuda-ecc", 0, 1)) == ("cuda-ecc", 0)


def test_where_survivors_alone_have_spoken_it_is_not_known_what_they_survived() -> None:
    found = root_cause(TWO, [line("gloo-closed", 1, 2, "closed"), line("nccl-remote-closed", 0, 1, "gone")], CATALOGUE)
    assert found is not None
    assert (found.rule, found.failure_class, found.line) == (ONLY_SURVIVORS, "ambiguous", "gone")


def test_a_plain_exit_code_says_nothing() -> None:
    assert root_cause(TWO, [], CATALOGUE) is None


def test_equal_ends_have_equal_fingerprints_whatever_numbers_and_addresses_they_name() -> None:
    one = fingerprint("cuda-oom", "Tried to allocate 2.00 GiB at 0x7f00ab12")
    assert one == fingerprint("cuda-oom", "Tried to allocate 13.50 GiB at 0x1")
    assert one != fingerprint("cuda-oom", "Tried to allocate memory")
    assert one != fingerprint("oom-kill", "Tried to allocate 2.00 GiB at 0x7f00ab12")
