"""The first gang that does not fit gets its place, whatever comes behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import QueuePolicy
from services.scheduler.domain.planning.reserve import DRAIN, PATIENCE
from services.scheduler.domain.planning.waiting import Queue
from tests.support.cluster import NOW, PUBLIC, ask, gang, node
from tests.support.cluster_life import ClusterLife

NODES = [node(name, cores=8, memory_gib=32, gpus=4) for name in "abcd"]
HOUR = 3600.0


def limited(job: str, cores: int, hours: float | None, replicas: int = 1, **more):
    """A gang that holds its place for so many hours at most."""
    longest_s = hours * HOUR if hours is not None else None
    return replace(gang(ask(replicas, cores=cores), job=job, **more), longest_s=longest_s)


def busy_life(*hours: float | None) -> ClusterLife:
    """Four nodes of eight cores, each with a gang of six that runs for at most so long."""
    life = ClusterLife(NODES)
    for number, most in enumerate(hours):
        life.submit(limited(f"tj-run{number}", 6, most))
    life.cycle()
    assert len(life.running) == len(hours)
    return life


class TestKnownEnds:
    def test_the_head_has_its_place_when_enough_gangs_must_have_ended(self):
        life = busy_life(1, 2, 3, 4)
        life.submit(limited("tj-head", 8, None, replicas=2))
        (kept,) = life.cycle().reservations
        assert kept.gang.job == "tj-head"
        assert kept.at == NOW + timedelta(hours=2)
        assert kept.places[0].rows == (0, 1)

    def test_a_gang_that_is_gone_by_then_passes_and_a_longer_one_only_beside_it(self):
        life = busy_life(1, 2, 3, 4)
        life.submit(limited("tj-head", 8, None, replicas=2))
        life.submit(limited("tj-short", 2, 1.5, replicas=4))
        life.cycle()
        assert "tj-short" in life.running
        life = busy_life(1, 2, 3, 4)
        life.submit(limited("tj-head", 8, None, replicas=2))
        life.submit(limited("tj-long", 2, 2.5, replicas=2))
        life.submit(limited("tj-endless", 2, None, replicas=1))
        life.cycle()
        assert life.state.ledger.held["tj-long-1"][0].node in {"n-c", "n-d"}
        assert "tj-endless" not in life.running

    def test_cores_that_are_free_now_and_not_needed_then_may_be_held_for_longer(self):
        life = busy_life(1, None, None, None)
        life.submit(limited("tj-head", 7, None))
        life.submit(limited("tj-one", 1, None))
        life.submit(limited("tj-two", 2, None))
        life.cycle()
        assert {"tj-one", "tj-two"} <= life.running
        assert life.last.reservations[0].at == NOW + timedelta(hours=1)

    def test_devices_that_are_free_now_stay_usable_where_others_will_do_for_the_head(self):
        life = ClusterLife([node("a", cores=8, gpus=4)])
        life.submit(replace(gang(ask(1, gpus=3), job="tj-run"), longest_s=HOUR))
        life.cycle()
        life.submit(gang(ask(1, gpus=3), job="tj-head"))
        life.submit(gang(ask(1, gpus=1), job="tj-small"))
        life.cycle()
        assert life.running == {"tj-run", "tj-small"}
        life.end("tj-run")
        life.cycle()
        assert "tj-head" in life.running

    def test_gangs_that_start_in_the_same_cycle_count_with_their_ends(self):
        life = ClusterLife(NODES)
        life.submit(limited("tj-first", 8, 1, replicas=3))
        life.submit(limited("tj-head", 8, None, replicas=4))
        (kept,) = life.cycle().reservations
        assert kept.at == NOW + timedelta(hours=1)


class TestByAge:
    def test_without_known_ends_others_pass_for_a_while_and_then_no_more(self):
        life = busy_life(None, None, None, None)
        life.submit(limited("tj-head", 8, None))
        life.submit(limited("tj-one", 2, None))
        life.cycle()
        assert "tj-one" in life.running
        life.now += PATIENCE
        life.submit(limited("tj-two", 2, None))
        (kept,) = life.cycle().reservations
        assert kept.at is None
        place = life.state.ledger.columns.layout.nodes[kept.places[0].rows[0]].id
        assert life.state.ledger.held["tj-two-1"][0].node != place

    def test_the_place_is_where_the_most_is_free_already(self):
        life = ClusterLife(NODES)
        for name, cores in (("x", 6), ("y", 3), ("z", 6), ("w", 7)):
            life.submit(limited(f"tj-{name}", cores, None))
        life.cycle()
        freest = life.state.ledger.held["tj-y-1"][0].node
        life.submit(limited("tj-head", 8, None))
        life.now += PATIENCE
        (kept,) = life.cycle().reservations
        assert life.state.ledger.columns.layout.nodes[kept.places[0].rows[0]].id == freest

    def test_what_stands_idle_for_it_is_one_node_at_first_and_grows_with_its_age(self):
        life = ClusterLife(NODES)
        for number in range(4):
            life.submit(gang(ask(1, cores=4, memory_gib=20), job=f"tj-run{number}"))
        life.cycle()
        life.submit(limited("tj-head", 8, None, replicas=4))
        for age, idle in ((PATIENCE, 1), (DRAIN * 0.6, 2), (DRAIN * 0.8, 3), (DRAIN, 4)):
            life.now = NOW + age
            for number in range(4):
                life.submit(limited(f"tj-{age}-{number}", 4, None))
            life.cycle()
            assert int((life.state.ledger.columns.cpu_m > 0).sum()) == idle
            for job in life.running - {f"tj-run{number}" for number in range(4)}:
                life.end(job)
            life.state.queue = Queue([life.gangs["tj-head"]])

    def test_a_gang_that_can_never_fit_keeps_nothing_from_anybody(self):
        life = busy_life(None, None, None, None)
        life.submit(limited("tj-giant", 99, None))
        life.now += PATIENCE * 2
        life.submit(limited("tj-one", 2, None))
        assert life.cycle().reservations == ()
        assert "tj-one" in life.running


def test_no_stream_of_small_gangs_starves_a_large_one():
    life = ClusterLife(NODES)
    for number in range(16):
        life.submit(limited(f"tj-small-{number}", 2, None), runs_s=600 + 37 * number)
    life.cycle()
    life.submit(limited("tj-large", 8, None, replicas=4))
    for number in range(16, 700):
        life.submit(limited(f"tj-small-{number}", 2, None), runs_s=600)
        life.pass_time(40)
        if "tj-large" in life.running:
            break
    assert "tj-large" in life.running
    assert life.now - NOW < DRAIN + timedelta(minutes=20)


def test_a_project_with_a_smaller_share_does_not_starve_a_large_gang_for_ever():
    life = ClusterLife(NODES)
    life.submit(replace(limited("tj-large", 8, None, replicas=4), project="big"))
    life.submit(replace(limited("tj-small", 2, None), project="small"), runs_s=600)
    for number in range(2000):
        life.submit(replace(limited(f"tj-small-{number}", 2, None, sequence=number + 9), project="small"), runs_s=600)
        life.pass_time(60)
        if "tj-large" in life.running:
            break
    assert "tj-large" in life.running
    assert life.now - NOW < DRAIN + timedelta(minutes=20)


def test_nobody_passes_the_head_of_a_fifo_pool():
    life = ClusterLife(NODES, (replace(PUBLIC, policy=QueuePolicy.FIFO),))
    life.submit(limited("tj-run", 6, 1))
    life.cycle()
    life.submit(limited("tj-head", 8, None, replicas=4))
    life.submit(limited("tj-short", 1, 0.1))
    plan = life.cycle()
    assert (plan.starts, plan.reservations) == ((), ())


jobs = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 6), st.booleans()), min_size=1, max_size=12
)


@given(jobs, jobs)
def test_what_passes_the_head_never_moves_its_start_later(before, behind):
    """With every gang running as long as it may, the head starts when it was promised, with or without the others."""
    life = ClusterLife(NODES)
    for number, (cores, replicas, hours, _) in enumerate(before):
        life.submit(limited(f"tj-b{number}", cores, hours, replicas), runs_s=hours * HOUR)
    life.cycle()
    if not life.last.reservations:
        return
    head, promised = life.last.reservations[0].gang.job, life.last.reservations[0].at
    for number, (cores, replicas, hours, known) in enumerate(behind):
        most = hours if known else None
        life.submit(limited(f"tj-x{number}", cores, most, replicas), runs_s=hours * HOUR if known else 1e9)
    life.cycle()
    for _ in range(40):
        if head in life.running:
            break
        assert life.last.reservations[0].at <= promised
        life.pass_time(HOUR)
    assert life.started_at[head] <= promised
