"""Who takes the place of nodes that a diagnosis speaks against."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import Level, Topology
from services.scheduler.domain.ledger import Ledger
from services.scheduler.domain.nodes import Node
from services.scheduler.domain.placement import nodes_of, seats_of
from services.scheduler.domain.replacing import replacement
from services.scheduler.domain.terms import REPLACEMENTS_MAX, Terms
from shared import events as ev
from shared.jobs import Job, replica_key
from tests.support.cluster import PUBLIC, node
from tests.support.jobs import fold_all, history, job_after, submitted

PASSED = ev.DiagnosisFinished(passed=True)


def nodes(*names: str, **more) -> list[Node]:
    return [node(name, cores=1, memory_gib=1, **more) for name in names]


def diagnosed(placed_on: str, found: ev.DiagnosisFinished, *more: ev.Payload) -> Job:
    """A job with a replica on each of these nodes, after its diagnosis."""
    ids = tuple(f"n-{name}" for name in placed_on)
    role = ev.RolePlacement(role="worker", pool="p-public", nodes=ids, node_of=tuple(range(len(ids))))
    placed = ev.Placed(cluster="main", roles=(role,), diagnosing=True)
    payloads = (submitted(replicas=len(ids)), placed, found, *more)
    job = fold_all(history((payload, 1) for payload in payloads))
    assert job is not None
    return job


def found_bad(*names: str, doubtful: str = "") -> ev.DiagnosisFinished:
    bad = tuple(f"n-{name}" for name in names)
    return ev.DiagnosisFinished(passed=not bad, bad_nodes=bad, doubtful_nodes=tuple(f"n-{name}" for name in doubtful))


def replaced(job: Job, cluster: list[Node], **changes):
    ledger = Ledger(cluster, {"public": PUBLIC})
    terms = replace(Terms.of(job), **changes)
    ledger.hold("gang", seats_of(job.attempt, terms))
    return replacement(job, terms, ledger.columns)


class TestBadNodes:
    def test_a_free_node_takes_the_place_and_the_others_stay(self):
        found = replaced(diagnosed("ab", found_bad("b")), nodes("a", "b", "c"))
        assert (found.left, found.taken, found.round) == (("n-b",), ("n-c",), 2)
        assert [(seat.index, seat.node) for seat in found.seats] == [(0, "n-a"), (1, "n-c")]

    def test_where_nothing_is_free_there_is_no_replacement(self):
        assert replaced(diagnosed("ab", found_bad("b")), nodes("a", "b")) is None

    def test_either_all_of_them_are_replaced_or_none(self):
        assert replaced(diagnosed("abc", found_bad("a", "b")), nodes("a", "b", "c", "d")) is None

    def test_a_node_that_failed_before_does_not_come_back(self):
        job = diagnosed("ab", found_bad("b"))
        change = replaced(job, nodes("a", "b", "c")).event(job.submitted.resolved, {}, "")
        again = found_bad("c").model_copy(update={"round": 2})
        job = diagnosed("ab", found_bad("b"), change, again)
        assert nodes_of(job.attempt) == ("n-a", "n-c")
        assert replaced(job, nodes("a", "b", "c")) is None
        assert replaced(job, nodes("a", "b", "c", "d")).taken == ("n-d",)

    def test_after_some_rounds_it_is_over(self):
        payloads: list[ev.Payload] = []
        for number in range(REPLACEMENTS_MAX):
            job = diagnosed("a", found_bad("a"), *payloads)
            change = replaced(job, nodes(*"abcdefgh")).event(job.submitted.resolved, {}, "")
            payloads += [change, ev.DiagnosisFinished(passed=False, bad_nodes=change.taken, round=number + 2)]
        assert replaced(diagnosed("a", found_bad("a"), *payloads), nodes(*"abcdefgh")) is None

    def test_a_suspect_node_is_taken_only_where_no_other_will_do(self):
        job, suspect = diagnosed("ab", found_bad("b")), [replace(each, suspect=True) for each in nodes("c")]
        assert replaced(job, [*nodes("a", "b", "d"), *suspect]).taken == ("n-d",)
        assert replaced(job, [*nodes("a", "b"), *suspect]).taken == ("n-c",)

    def test_a_gang_whose_nodes_all_failed_gets_others(self):
        assert replaced(diagnosed("ab", found_bad("a", "b")), nodes(*"abcd")).taken == ("n-c", "n-d")

    def test_the_new_node_is_on_the_leaf_of_those_that_stay(self):
        far, near = {"spine": "0", "leaf": "0"}, {"spine": "0", "leaf": "1"}
        cluster = [*nodes("a", "b", labels=near), *nodes("c", labels=far), *nodes("d", labels=near)]
        assert replaced(diagnosed("ab", found_bad("b")), cluster).taken == ("n-d",)
        hard = Topology(Level.LEAF, hard=True)
        assert replaced(diagnosed("ab", found_bad("b")), cluster[:3], topology=hard) is None

    def test_an_excluded_node_is_not_taken(self):
        found = replaced(diagnosed("ab", found_bad("b")), nodes("a", "b", "c"), excluded_nodes=frozenset({"c"}))
        assert found is None


class TestDoubtfulNodes:
    def test_one_is_replaced_where_a_sound_node_is_free(self):
        assert replaced(diagnosed("ab", found_bad(doubtful="a")), nodes("a", "b", "c")).left == ("n-a",)
        assert replaced(diagnosed("ab", found_bad(doubtful="a")), nodes("a", "b")) is None

    def test_none_is_replaced_by_another_suspect(self):
        suspect = [replace(each, suspect=True) for each in nodes("c")]
        assert replaced(diagnosed("ab", found_bad(doubtful="a")), [*nodes("a", "b"), *suspect]) is None

    def test_a_failed_node_goes_first_where_there_is_room_for_one(self):
        job = diagnosed("abcd", found_bad("d", doubtful="a"))
        assert replaced(job, nodes(*"abcde")).left == ("n-d",)
        assert replaced(job, nodes(*"abcdef")).left == ("n-a", "n-d")

    def test_of_two_nodes_that_doubt_each_other_one_goes(self):
        assert replaced(diagnosed("ab", found_bad(doubtful="ab")), nodes(*"abcd")).left == ("n-a",)

    def test_where_most_of_a_gang_is_doubtful_nobody_goes(self):
        assert replaced(diagnosed("abcd", found_bad(doubtful="abc")), nodes(*"abcdefgh")) is None


class TestWhenThereIsNothingToDo:
    def test_a_diagnosis_that_passed_changes_nothing(self):
        assert replaced(diagnosed("ab", PASSED), nodes("a", "b", "c")) is None

    def test_an_attempt_that_makes_room_for_another_is_left_as_it_is(self):
        preempted = ev.PreemptionRequested(by="tj-x", priority=9)
        assert replaced(diagnosed("ab", found_bad("b"), preempted), nodes("a", "b", "c")) is None

    def test_an_attempt_whose_end_has_begun_is_left_as_it_is(self):
        never = ev.ReplicaExit(cause="never-started")
        gone = ev.ReplicaChange(role="worker", index=0, state="exited", at=job_after().submitted_at, exit=never)
        job = diagnosed("ab", found_bad("b"), ev.ReplicasChanged(changes=(gone,)))
        assert replaced(job, nodes("a", "b", "c")) is None

    def test_a_job_that_is_stopped_is_left_as_it_is(self):
        job = diagnosed("ab", found_bad("b"), ev.StopRequested(by="ada"))
        assert replaced(job, nodes("a", "b", "c")) is None


@given(
    spare=st.integers(0, 6),
    bad=st.sets(st.sampled_from("abcdef")),
    doubtful=st.sets(st.sampled_from("abcdef")),
    full=st.sets(st.sampled_from("ghijkl")),
)
def test_the_gang_stays_whole_and_nobody_who_was_sound_moves(spare: int, bad: set, doubtful: set, full: set) -> None:
    job = diagnosed("abcdef", found_bad(*sorted(bad), doubtful="".join(sorted(doubtful - bad))))
    ledger = Ledger(nodes(*"abcdef", *"ghijkl"[:spare]), {"public": PUBLIC})
    terms = Terms.of(job)
    before = seats_of(job.attempt, terms)
    ledger.hold("gang", before)
    ledger.hold("other", [replace(before[0], node=f"n-{name}") for name in full & set("ghijkl"[:spare])])
    found = replacement(job, terms, ledger.columns)
    free = {f"n-{name}" for name in "ghijkl"[:spare]} - {f"n-{name}" for name in full}
    if found is None:
        assert not bad or len(free) < len(bad)
        return
    assert {replica_key(seat.role, seat.index) for seat in found.seats} == set(job.attempt.replicas)
    assert {f"n-{name}" for name in bad} <= set(found.left) <= {f"n-{name}" for name in bad | doubtful}
    assert set(found.taken) <= free
    kept = [seat for seat in before if seat.node not in found.left]
    assert set(kept) <= set(found.seats)
    after = Ledger(ledger.nodes.values(), {"public": PUBLIC})
    after.hold("gang", found.seats)
    assert all(room.cpu_m >= 0 for room in after.rooms.values())
