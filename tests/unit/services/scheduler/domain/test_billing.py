"""What is still to be published: each window once, corrections that name what they correct, sums that always fit."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.metering import Used, readings, totals
from services.scheduler.domain.verification import compare
from shared.events import EndReason, UsageCorrected, UsageMetered, encode
from tests.support.metering import JOB, Told, UsageStream, at

WINDOW_0 = f"{JOB}/1/worker/2026-01-01T00:00:00Z"
WINDOW_1 = f"{JOB}/1/worker/2026-01-01T00:10:00Z"


def test_closed_windows_are_due_and_asking_again_gives_nothing():
    told, stream = Told().place().run(), UsageStream()
    assert [item.id for item in stream.settle(told, 11)] == [WINDOW_0]
    assert stream.settle(told, 12) == []
    assert [item.id for item in stream.settle(told, 21)] == [WINDOW_1]


def test_windows_that_closed_while_nobody_looked_are_all_due():
    told, stream = Told().place().run(), UsageStream()
    assert len(stream.settle(told, 65)) == 6


def test_a_record_says_what_was_bought_and_for_how_much():
    told, stream = Told().place().run(), UsageStream()
    payload = stream.settle(told, 11)[0].payload
    assert isinstance(payload, UsageMetered)
    assert (payload.job_name, payload.owner_name, payload.role, payload.phase) == ("demo", "ada", "worker", "running")
    assert (payload.pool_name, payload.instance_type, payload.price_micros_per_hour) == (
        "public",
        "cpu-small",
        1_000_003,
    )
    assert (payload.window_start, payload.window_end, payload.billable) == (at(0), at(10), True)


def test_the_event_is_the_same_fact_whoever_writes_it_and_when():
    told = Told().place().run()
    first, again = (UsageStream().settle(told, minutes)[0].event(told.job, 1, at(minutes)) for minutes in (11, 19))
    assert first.same_fact(again)
    assert first.message_id == f"/trainmaster/scheduler/{WINDOW_0}"
    assert len(encode(first)) < 2048


def test_an_attempt_lost_to_the_platform_is_credited_record_by_record():
    told, stream = Told().place().run(), UsageStream()
    stream.settle(told, 11)
    told.end(15, EndReason.PLATFORM)
    last, *credits_ = stream.settle(told, 15)
    assert last.id == WINDOW_1
    assert [credit.id for credit in credits_] == [f"{WINDOW_0}/correction/1", f"{WINDOW_1}/correction/1"]
    assert [credit.payload.corrects for credit in credits_] == [(WINDOW_0,), (WINDOW_1,)]
    assert {credit.payload.reason for credit in credits_} == {"platform"}
    assert stream.total == Used()


def test_an_end_that_became_known_late_is_settled_when_the_attempt_ends():
    told, stream = Told().place().run(), UsageStream()
    stream.settle(told, 21)
    told.exit(0, 5, told_at=22).exit(1, 25)
    assert stream.settle(told, 22) == []
    told.end(25)
    late = [item for item in stream.settle(told, 25) if isinstance(item.payload, UsageCorrected)]
    assert [item.payload.corrects for item in late] == [(WINDOW_0,), (WINDOW_1,)]
    assert [item.payload.replica_ms for item in late] == [-5 * 60_000, -10 * 60_000]
    assert {item.payload.reason for item in late} == {"late-facts"}
    assert stream.total.replica_ms == (5 + 25) * 60_000


def test_a_record_of_time_that_turns_out_not_to_have_been_used_is_taken_back_whole():
    told, stream = Told(replicas=1).place().run(), UsageStream()
    stream.settle(told, 21)
    told.exit(0, 5, told_at=22).end(22)
    stream.settle(told, 22)
    assert stream.booked()[WINDOW_1].net == Used()
    assert stream.total.replica_ms == 5 * 60_000


LIFE_MINUTES = 90.0
minutes = st.floats(0, LIFE_MINUTES).map(lambda value: round(value, 4))
exits = st.lists(st.tuples(minutes, st.sampled_from([0, 0, 0.01, 12, 40])), min_size=1, max_size=5)
# (when somebody looks, how much of what is due gets through before the crash)
looks = st.lists(st.tuples(minutes, st.integers(0, 3) | st.none()), max_size=12)
reasons = st.sampled_from([EndReason.COMPLETED, EndReason.FAILED, EndReason.PLATFORM])


@given(minutes, exits, looks, reasons, st.lists(st.integers(0, 2), max_size=4), st.sampled_from([None, 7, 1_000_003]))
def test_whatever_the_crashes_and_delays_each_window_is_recorded_once_and_the_sum_is_the_total(
    begun: float,
    ends: list[tuple[float, float]],
    looked: list[tuple[float, int | None]],
    reason: EndReason,
    crashes: list[int],
    price: int | None,
):
    told, stream = Told(replicas=len(ends), price=price).place(), UsageStream()
    over = max(*(end + delay for end, delay in ends), begun)
    happened = [(begun, 0, lambda: told.run(begun))]
    happened += [
        (end + delay, 1, lambda index=index, end=end, delay=delay: told.exit(index, end, told_at=end + delay))
        for index, (end, delay) in enumerate(ends)
    ]
    happened += [
        (when, 2, lambda when=when, at_most=at_most: stream.settle(told, when, at_most=at_most))
        for when, at_most in looked
        if when < over
    ]
    for _, _, act in sorted(happened, key=lambda one: one[:2]):
        act()
    told.end(over, reason)
    for at_most in crashes:
        stream.settle(told, over, at_most=at_most)
    stream.settle(told, over + 1)

    assert stream.settle(told, over + 2) == []
    assert max(Counter(item.id for item in stream.items).values(), default=1) == 1
    recomputed = totals(told.job, told.job.attempt, at(over))
    assert stream.total == sum(recomputed.values(), Used())
    final = {one.id: one.used for one in readings(told.job, told.job.attempt, at(over))}
    if reason is not EndReason.PLATFORM:
        assert {id_: book.net for id_, book in stream.booked().items() if book.net != Used()} == final
    recorded: dict = {}
    for book in stream.booked().values():
        key = (1, book.record.role, book.record.phase)
        recorded[key] = recorded.get(key, Used()) + book.net
    assert {one.verdict for one in compare(told.job, recorded, at(over + 5))} <= {"same"}
