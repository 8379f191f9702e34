"""A placement survives its way through the record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import RoleAsk
from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.placement import (
    holds_capacity,
    placed_event,
    seats_of,
)
from services.scheduler.domain.terms import Terms
from shared import events as ev
from shared.jobs import Attempt
from tests.support.cluster import request
from tests.support.jobs import START, job_after, placed, role


def terms(*roles: RoleAsk) -> Terms:
    return Terms(roles, frozenset(), frozenset(), 1.0, None, 1.0)


def resolved(*roles: str) -> ev.Resolved:
    return ev.Resolved(cluster="main", roles=tuple(role(name) for name in roles))


seat_lists = st.dictionaries(
    st.sampled_from(["master", "ps", "worker"]),
    st.lists(st.tuples(st.sampled_from(["n-1", "n-2", "n-3"]), st.integers(0, 2)), min_size=1, max_size=5),
    min_size=1,
)


@given(seat_lists)
def test_seats_read_back_from_the_record_are_those_that_were_written(asked):
    roles = tuple(RoleAsk(name, len(places), "p-public", request()) for name, places in asked.items())
    seats = tuple(
        Seat(name, index, node, request(), tuple(f"{name}{index}-{number}" for number in range(gpus)))
        for name, places in asked.items()
        for index, (node, gpus) in enumerate(places)
    )
    event = placed_event(resolved(*asked), reversed(seats), {})
    attempt = Attempt(number=1, queued_at=START, placement=ev.Placed.model_validate_json(event.model_dump_json()))
    assert seats_of(attempt, terms(*roles)) == seats


def test_an_attempt_without_a_placement_has_no_seats():
    assert seats_of(Attempt(number=1, queued_at=START), terms()) == ()


def test_a_placement_says_what_people_call_its_nodes():
    seats = (Seat("worker", 0, "n-1", request()), Seat("worker", 1, "n-2", request()))
    (role_placement,) = placed_event(resolved("worker"), seats, {"n-1": "vm-1"}).roles
    assert [role_placement.node_name(index) for index in (0, 1)] == ["vm-1", "n-2"]
    (of_before,) = placed(2, "n-1").roles
    assert of_before.node_name(1) == "n-1"


def test_a_placement_of_ten_thousand_fits_into_an_event():
    seats = [Seat("worker", n, f"n-{n // 8:012}", request(), (f"gpu-{n % 8}",)) for n in range(10_000)]
    names = {seat.node: f"a-node-with-quite-a-long-name-{seat.node}" for seat in seats}
    event = placed_event(resolved("worker"), seats, names)
    assert len(event.model_dump_json()) < ev.MAX_EVENT_BYTES


def test_capacity_is_held_from_placement_to_the_confirmed_end():
    assert not holds_capacity(job_after())
    assert holds_capacity(job_after(placed()))
    assert holds_capacity(job_after(placed(), ev.StopRequested(by="ada")))
    assert not holds_capacity(job_after(placed(), ev.AttemptEnded(reason=ev.EndReason.FAILED)))
