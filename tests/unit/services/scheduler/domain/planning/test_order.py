"""Whose turn it is: priority with age, fair shares, submission."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import QueuePolicy
from services.scheduler.domain.planning.order import Shares, Walk
from services.scheduler.domain.planning.usage import Usage, amounts_by_pool
from services.scheduler.domain.planning.waiting import AGEING, Queue
from tests.support.cluster import NOW, PUBLIC, ask, gang

TOTAL = (100_000, 100 << 30, 100)
FIFO = replace(PUBLIC, policy=QueuePolicy.FIFO)


def waiting(job: str, sequence: int, *roles, project: str = "p", owner: str = "u", priority: int = 5, hours: float = 0):
    one = gang(*roles, job=job, sequence=sequence, priority=priority)
    return replace(one, project=project, owner=owner, since=NOW - timedelta(hours=hours))


def walked(*gangs, usage: Usage | None = None, pool=PUBLIC, gives_up: frozenset[str] = frozenset()) -> list[str]:
    """Jobs in the order of their turns; each is given what it asks for, but for some."""
    held = usage or Usage()
    walk, jobs = Walk(Queue(gangs), Shares(held, {pool.name: pool}, lambda _: TOTAL), NOW), []
    while (turn := walk.next()) is not None:
        jobs.append(turn.gang.job)
        if turn.gang.job in gives_up:
            walk.leave_lane(turn)
        else:
            held.shift(turn.gang.project, turn.gang.owner, turn.asked, 1)
            walk.advance(turn)
    return jobs


class TestPriorityAndAge:
    def test_higher_priority_goes_first_then_the_earlier_submission(self):
        assert walked(waiting("a", 1), waiting("b", 2, priority=6), waiting("c", 3)) == ["b", "a", "c"]

    def test_each_ageing_interval_is_worth_one_priority(self):
        hour = AGEING / timedelta(hours=1)
        assert walked(waiting("young", 1, priority=6), waiting("old", 2, hours=2 * hour)) == ["old", "young"]
        assert walked(waiting("young", 1, priority=6), waiting("old", 2, hours=0.9 * hour)) == ["young", "old"]

    def test_age_goes_beyond_the_highest_priority(self):
        assert walked(waiting("new", 1, priority=9), waiting("old", 2, priority=1, hours=9)) == ["old", "new"]

    def test_a_lane_is_as_old_as_the_one_that_waits_the_longest_in_it(self):
        retried, first = waiting("retried", 1), waiting("first", 2, hours=3)
        assert walked(retried, first, waiting("other", 3, priority=6)) == ["retried", "first", "other"]


class TestFairShare:
    def test_the_project_with_the_smaller_share_goes_first(self):
        usage = Usage()
        usage.add("rich", "u", [ask(10)])
        assert walked(waiting("a", 1, project="rich"), waiting("b", 2, project="poor"), usage=usage) == ["b", "a"]

    def test_projects_take_turns_by_what_they_would_hold(self):
        gangs = [waiting(f"{project}{number}", number, project=project) for number in range(3) for project in "ab"]
        assert walked(*gangs) == ["a0", "b0", "a1", "b1", "a2", "b2"]

    def test_the_gang_itself_is_counted_in(self):
        large, small = waiting("large", 1, ask(50), project="a"), waiting("small", 2, ask(1), project="b")
        assert walked(large, small) == ["small", "large"]

    def test_the_dominant_resource_decides(self):
        gpus, cores = ask(1, cores=1, gpus=20), ask(1, cores=15)
        assert walked(waiting("g", 1, gpus, project="a"), waiting("c", 2, cores, project="b")) == ["c", "g"]

    def test_users_of_a_project_share_its_part(self):
        usage = Usage()
        usage.add("p", "ada", [ask(10)])
        assert walked(waiting("a", 1, owner="ada"), waiting("b", 2, owner="bob"), usage=usage) == ["b", "a"]

    def test_the_gangs_of_one_user_keep_the_order_of_submission(self):
        assert walked(waiting("large", 1, ask(50)), waiting("small", 2, ask(1))) == ["large", "small"]

    def test_a_fifo_pool_knows_no_shares(self):
        usage = Usage()
        usage.add("rich", "u", [ask(10)])
        gangs = waiting("a", 1, project="rich"), waiting("b", 2, project="poor")
        assert walked(*gangs, usage=usage, pool=FIFO) == ["a", "b"]


def test_a_lane_that_is_left_gives_no_further_turn_and_the_others_do():
    gangs = [waiting("a1", 1), waiting("a2", 2), waiting("b1", 3, ask(2)), waiting("b2", 4, ask(2))]
    assert walked(*gangs, gives_up=frozenset({"a1"})) == ["a1", "b1", "b2"]


def test_jobs_that_are_left_out_have_no_turn():
    walk = Walk(Queue([waiting("a", 1), waiting("b", 2)]), Shares(Usage(), {}, lambda _: TOTAL), NOW, frozenset({"a"}))
    turn = walk.next()
    assert turn is not None
    assert turn.gang.job == "b"


entries = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from("ab"), st.sampled_from("uv"), st.integers(1, 9), st.integers(0, 4)),
    max_size=12,
)


def gangs_of(asked):
    return [
        waiting(f"tj-{n}", n, ask(replicas), project=project, owner=owner, priority=priority, hours=hours)
        for n, (replicas, project, owner, priority, hours) in enumerate(asked)
    ]


@given(entries, st.randoms(use_true_random=False))
def test_everybody_has_one_turn_and_the_order_of_arrival_does_not_matter(asked, shuffler):
    gangs = gangs_of(asked)
    jobs = walked(*gangs)
    assert sorted(jobs) == sorted(gang.job for gang in gangs)
    assert walked(*shuffler.sample(gangs, len(gangs))) == jobs


@given(entries)
def test_whoever_has_the_turn_has_the_least_share_among_projects_of_the_highest_level(asked):
    gangs, held, lanes = gangs_of(asked), Usage(), Queue(gangs_of(asked))
    shares = Shares(held, {"public": PUBLIC}, lambda _: TOTAL)
    walk, left = Walk(lanes, shares, NOW), {gang.job: gang for gang in gangs}
    level = {
        gang.job: lane.level(NOW) for line in lanes.lines.values() for lane in line.values() for gang in lane.gangs
    }
    while (turn := walk.next()) is not None:
        mine = shares.dominant(turn.cursor.shared, turn.gang.project)
        assert level[turn.gang.job] == max(level[job] for job in left)
        for project in {each.project for each in left.values()} - {turn.gang.project}:
            rivals = [each for each in left.values() if each.project == project]
            rivals = [each for each in rivals if level[each.job] == level[turn.gang.job]]
            least = [shares.dominant(shares.shared(amounts_by_pool(each.roles)), project) for each in rivals]
            assert not least or mine <= max(least)
        held.shift(turn.gang.project, turn.gang.owner, turn.asked, 1)
        walk.advance(turn)
        del left[turn.gang.job]


def lanes_of(queue: Queue) -> dict:
    lanes = {(*line, *key): lane for line, lanes in queue.lines.items() for key, lane in lanes.items()}
    return {key: (lane.priority, lane.asked, lane.gangs, lane.since) for key, lane in lanes.items()}


@given(entries, st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=20))
def test_a_queue_that_changed_is_the_one_that_would_be_made_anew(asked, moves):
    gangs = gangs_of(asked)
    queue, there = Queue(gangs), {gang.job: gang for gang in gangs}
    for number, comes in moves:
        if number < len(gangs):
            gang = gangs[number]
            queue.remove(gang.job)
            there.pop(gang.job, None)
            if comes:
                queue.add(gang)
                there[gang.job] = gang
    assert lanes_of(queue) == lanes_of(Queue(there.values()))
