"""The picture of jobs and cluster follows the record, and can be drawn anew at any time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.control.world import World
from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.nodes import Request
from shared import events as ev
from shared.catalog import Catalog, Pool
from shared.jobs import Job, fold_all
from tests.support.cluster import node
from tests.support.jobs import START, history, placed, submitted

HOLDS = Request(1000, 1 << 30)
LIVES = (
    (),
    (placed(node="n-a"),),
    (placed(node="n-a"), ev.Started()),
    (placed(node="n-a"), ev.StopRequested(by="ada")),
    (placed(node="n-a"), ev.AttemptEnded(reason=ev.EndReason.FAILED)),
    (placed(node="n-a"), ev.AttemptEnded(reason=ev.EndReason.COMPLETED), ev.Succeeded()),
)


def job(number: int, payloads=(), **changes) -> Job:
    return fold_all(history([(submitted(**changes), 1), *((p, 1) for p in payloads)], job=f"tj-{number}"))


def world(cores: int = 100) -> World:
    made = World()
    made.set_nodes([node("a", cores=cores, memory_gib=100)])
    return made


def test_a_waiting_job_is_in_the_queue_and_a_placed_one_holds_its_seats():
    made = world()
    made.take(job(1))
    assert [gang.job for gang in made.waiting()] == ["tj-1"]
    made.take(job(1, LIVES[1]))
    assert made.waiting() == ()
    assert made.ledger.rooms["n-a"].cpu_m == 98_000


def test_seats_are_given_back_when_the_end_of_the_attempt_is_on_record():
    made = world()
    made.take(job(1, LIVES[3]))
    assert made.ledger.rooms["n-a"].cpu_m == 98_000
    made.take(job(1, LIVES[4]))
    assert made.ledger.rooms["n-a"].cpu_m == 100_000


def test_reserved_seats_are_held_before_the_record_says_so():
    made = world()
    made.take(job(1))
    (gang,) = made.waiting()
    made.reserve(gang, (Seat("worker", 0, "n-a", HOLDS), Seat("worker", 1, "n-a", HOLDS)), START)
    assert made.ledger.rooms["n-a"].cpu_m == 98_000
    made.take(job(1, LIVES[1]))
    assert made.ledger.rooms["n-a"].cpu_m == 98_000


def test_a_reservation_that_came_to_nothing_is_given_back():
    made = world()
    made.take(job(1))
    made.reserve(made.waiting()[0], (Seat("worker", 0, "n-a", HOLDS),), START)
    made.take(job(1))
    assert made.ledger.rooms["n-a"].cpu_m == 100_000


def test_the_gangs_of_jobs_that_are_being_written_are_left_out_of_a_plan():
    made = world()
    for number in (1, 2):
        made.take(job(number))
    assert [gang.job for gang in made.snapshot(but={"tj-1"}).gangs] == ["tj-2"]


def test_a_job_whose_spec_cannot_be_read_is_left_alone():
    made = world()
    made.take(job(1, spec={"nonsense": True}))
    assert made.waiting() == ()


def test_pools_come_from_the_catalog():
    document = {
        "apiVersion": "trainmaster/v1",
        "kind": "Pool",
        "metadata": {"name": "team"},
        "spec": {"type": "dedicated", "nodes": {"names": ["a"]}, "queuePolicy": "fifo"},
    }
    catalog = Catalog()
    catalog.apply(Pool.key_of("team"), Pool.model_validate(document).model_dump_json().encode(), 1)
    made = world()
    made.set_pools(catalog)
    assert made.pools["team"].has(made.ledger.nodes["n-a"])
    assert made.pools["team"].policy == "fifo"


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(LIVES)), max_size=12))
def test_following_jobs_comes_to_the_same_as_drawing_the_picture_anew(steps):
    followed, last = world(), {}
    for number, payloads in steps:
        last[number] = job(number, payloads)
        followed.take(last[number])
    drawn = world()
    drawn.take_all(one for one in last.values() if not one.ended)
    assert followed.ledger.rooms == drawn.ledger.rooms
    assert set(followed.waiting()) == set(drawn.waiting())
    followed.take_all(one for one in last.values() if not one.ended)
    assert followed.ledger.rooms == drawn.ledger.rooms


def test_a_gang_whose_node_is_replaced_holds_the_new_one_and_no_more_the_old():
    made = World()
    made.set_nodes([node("a", cores=10), node("b", cores=10)])
    diagnosing = placed(node="n-a").model_copy(update={"diagnosing": True})
    found = job(1, (diagnosing,))
    made.take(found)
    made.move(found, tuple(Seat("worker", index, "n-b", HOLDS) for index in (0, 1)))
    assert [made.ledger.rooms[name].cpu_m for name in ("n-a", "n-b")] == [10_000, 8_000]
    made.take(found)
    assert [made.ledger.rooms[name].cpu_m for name in ("n-a", "n-b")] == [8_000, 10_000]
    moved = ev.PlacementChanged(roles=placed(node="n-b").roles, left=("n-a",), taken=("n-b",), round=2)
    made.take(job(1, (diagnosing, moved)))
    assert [made.ledger.rooms[name].cpu_m for name in ("n-a", "n-b")] == [10_000, 8_000]
