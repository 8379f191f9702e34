"""The envelope around a payload: CloudEvents 1.0 in structured JSON, with an id that is the same for the same fact."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, SerializeAsAny, ValidationError
from pydantic_core import from_json

from shared.errors import TrainmasterError
from shared.events.facts import Time
from shared.events.payloads import PAYLOAD_OF_TYPE, Payload, Unknown
from shared.units import KIB

MAX_EVENT_BYTES: Final = 256 * KIB
CONTENT_TYPE: Final = "application/cloudevents+json"


class EventError(TrainmasterError):
    """Bytes that are no event, or an event that is too large."""

    code = "malformed"


class Event(BaseModel):
    """A CloudEvent. `subject` is the job id (or the node's, or the leadership's name)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    subject: str
    time: Time
    datacontenttype: str = "application/json"
    traceparent: str | None = None
    causationid: str | None = None
    owner: str | None = None
    project: str | None = None
    attempt: int | None = None
    data: SerializeAsAny[Payload]

    @classmethod
    def of(
        cls,
        payload: Payload,
        *,
        job: str,
        attempt: int,
        time: datetime,
        owner: str,
        project: str,
        part: str = "",
        causation: str | None = None,
        traceparent: str | None = None,
    ) -> Self:
        """Event about a job; `part`, or the payload's own, tells apart several events of one kind in one attempt."""
        told_apart_by = part or payload.part
        event_id = f"{job}/{attempt}/{payload.SUFFIX}" + (f"/{told_apart_by}" if told_apart_by else "")
        return cls(
            id=event_id,
            source=f"/trainmaster/{payload.AUTHOR}",
            type=payload.TYPE,
            subject=job,
            time=time,
            traceparent=traceparent,
            causationid=causation,
            owner=owner,
            project=project,
            attempt=attempt,
            data=payload,
        )

    @property
    def message_id(self) -> str:
        """What JetStream recognises a repeated publish by."""
        return f"{self.source}/{self.id}"

    def same_fact(self, other: Event) -> bool:
        """Whether both say the same: a writer whose publish was refused may find its own event already there."""
        return (self.id, self.source, self.type) == (other.id, other.source, other.type) and self.data == other.data


def encode(event: Event) -> bytes:
    """JSON of an event; raises EventError where it is larger than `MAX_EVENT_BYTES`."""
    body = event.model_dump_json(by_alias=True, exclude_none=True).encode()
    if len(body) > MAX_EVENT_BYTES:
        raise EventError(f"event {event.id} has {len(body)} bytes; at most {MAX_EVENT_BYTES} are allowed")
    return body


def decode(body: bytes) -> Event:
    """Event of its JSON; an unknown type gets an `Unknown` payload; raises EventError where the bytes are no event."""
    try:
        document = from_json(body)
        payload = PAYLOAD_OF_TYPE.get(document.get("type"), Unknown).model_validate(document.get("data") or {})
        return Event.model_validate({**document, "data": payload})
    except (ValueError, AttributeError, ValidationError) as error:
        raise EventError(f"no event: {error}") from error


def subject_of(event: Event) -> str:
    """Subject under which an event about a job is published."""
    return f"tm.job.{event.subject}.{event.data.KIND}.{event.data.SUFFIX}"
