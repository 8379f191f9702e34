"""Envelope, encoding, and the golden samples that every later version must read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared import events as ev
from shared.events import MAX_EVENT_BYTES, PAYLOADS, Event, EventError, Payload, Unknown, decode, encode, subject_of
from tests.support.jobs import event, placed, submitted

GOLDEN = Path(__file__).parents[2] / "golden" / "events"


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_every_event_type_has_a_golden_sample_that_decodes_to_itself(payload: type[Payload]) -> None:
    body = (GOLDEN / f"{payload.TYPE}.json").read_bytes()
    decoded = decode(body)
    assert type(decoded.data) is payload
    assert json.loads(encode(decoded)) == json.loads(body)


def test_no_golden_sample_is_of_a_type_that_is_no_longer_read() -> None:
    assert {file.stem for file in GOLDEN.glob("*.json")} <= {payload.TYPE for payload in PAYLOADS}


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_event_types_are_a_noun_and_a_past_tense_with_a_version(payload: type[Payload]) -> None:
    prefix, noun, verb, version = payload.TYPE.split(".")
    assert (prefix, version) == ("trainmaster", "v1")
    assert noun.isalpha()
    assert verb.endswith("d") or verb == "chosen"
    assert payload.SUFFIX in (verb, f"{noun}.{verb}")


def test_the_id_of_an_event_is_made_of_job_attempt_and_kind() -> None:
    first, again = event(placed(), "tj-a", attempt=2), event(placed(), "tj-a", attempt=2, at_s=9)
    assert first.id == "tj-a/2/placed"
    assert first.message_id == "/trainmaster/scheduler/tj-a/2/placed"
    assert first.same_fact(again)
    assert not first.same_fact(event(placed(node="n-2"), "tj-a", attempt=2))


def test_subjects_tell_transitions_from_observations() -> None:
    assert subject_of(event(ev.StopRequested(by="u"), "tj-a")) == "tm.job.tj-a.state.stop.requested"
    assert subject_of(event(ev.ReplicasChanged(changes=()), "tj-a")) == "tm.job.tj-a.obs.replicas.changed"


def test_unknown_fields_are_ignored_and_unknown_types_read_as_such() -> None:
    document = json.loads(encode(event(submitted(), "tj-a")))
    document["data"]["fromTheFuture"] = 1
    document["extension"] = "x"
    assert decode(json.dumps(document).encode()) == event(submitted(), "tj-a")
    document["type"] = "trainmaster.job.teleported.v1"
    assert isinstance(decode(json.dumps(document).encode()).data, Unknown)


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"[]", b"null", b"7", b"{}", b'{"type": "trainmaster.job.placed.v1"}']
)
def test_bytes_that_are_no_event_are_refused(body: bytes) -> None:
    with pytest.raises(EventError):
        decode(body)


def test_an_event_over_the_limit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(EventError, match=str(MAX_EVENT_BYTES)):
        encode(event(ev.Deleted(by="x" * MAX_EVENT_BYTES), "tj-a"))


def test_a_placement_of_ten_thousand_gpu_replicas_fits_into_an_event() -> None:
    replicas = 10_000
    role = ev.RolePlacement(
        role="worker",
        pool="p-public",
        nodes=tuple(f"n-{number:012d}" for number in range(replicas // 8)),
        node_of=tuple(index // 8 for index in range(replicas)),
        devices=tuple((str(index % 8),) for index in range(replicas)),
    )
    assert len(encode(event(ev.Placed(cluster="main", roles=(role,)), "tj-a"))) < MAX_EVENT_BYTES


def test_times_are_written_in_utc_with_z() -> None:
    assert json.loads(encode(event(submitted(), "tj-a")))["time"] == "2026-01-01T00:00:00.000Z"


def test_envelope_fields_that_are_absent_are_left_out() -> None:
    assert "traceparent" not in json.loads(encode(event(submitted(), "tj-a")))
    assert Event.model_fields["specversion"].default == "1.0"


def test_a_sentence_too_long_to_be_written_is_cut_and_stays_as_it_is_when_read() -> None:
    ended = event(ev.AttemptEnded(reason=ev.EndReason.FAILED, message="x" * 2_000_000), "tj-a")
    assert len(encode(ended)) < MAX_EVENT_BYTES
    assert decode(encode(ended)) == ended
    assert isinstance(ended.data, ev.AttemptEnded)
    assert ended.data.message.endswith("x…")
