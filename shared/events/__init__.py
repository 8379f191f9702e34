"""The facts that services tell each other: a pydantic model for each event, and the CloudEvents envelope around it.

An event is CloudEvents 1.0 in structured JSON. Its payload class says all there is to know about the kind of fact:
`TYPE` (`trainmaster.<noun>.<past tense>.v1`), `SUFFIX` (the end of its subject), `KIND` (a *state* event is a
transition and is published under compare-and-set; an *obs* event is an observation and is not) and `AUTHOR` (the one
service that may say it). `Event.of` builds an event whose id is made of job, attempt and suffix, so that a repeated
publish is the same event.

Consumers ignore fields and types they do not know: `decode` gives them an `Unknown` payload. An incompatible change
is a new `TYPE` with a higher version; the schemas and golden samples in `docs/schemas` and `tests/golden` see to it.
"""

from __future__ import annotations

from shared.events.envelope import (
    CONTENT_TYPE,
    MAX_EVENT_BYTES,
    Event,
    EventError,
    decode,
    encode,
    subject_of,
)
from shared.events.facts import (
    EndReason,
    Fact,
    NodeFinding,
    OutOfMemory,
    ReplicaChange,
    ReplicaExit,
    ReplicaRef,
    Resolved,
    ResolvedCode,
    ResolvedImage,
    ResolvedMount,
    ResolvedRole,
    RolePlacement,
    Time,
)
from shared.events.payloads import (
    PAYLOAD_OF_TYPE,
    PAYLOADS,
    Admitted,
    AttemptEnded,
    Author,
    Deleted,
    DiagnosisFinished,
    DiagnosisRequested,
    Failed,
    IncidentRaised,
    Kind,
    LeaderElected,
    NameClaimed,
    NameReleased,
    NodeReported,
    Payload,
    Placed,
    Queued,
    ReplicasChanged,
    RetryDecided,
    Started,
    Stopped,
    StopRequested,
    Submitted,
    Succeeded,
    Unknown,
)

__all__ = [
    "CONTENT_TYPE",
    "MAX_EVENT_BYTES",
    "PAYLOADS",
    "PAYLOAD_OF_TYPE",
    "Admitted",
    "AttemptEnded",
    "Author",
    "Deleted",
    "DiagnosisFinished",
    "DiagnosisRequested",
    "EndReason",
    "Event",
    "EventError",
    "Fact",
    "Failed",
    "IncidentRaised",
    "Kind",
    "LeaderElected",
    "NameClaimed",
    "NameReleased",
    "NodeFinding",
    "NodeReported",
    "OutOfMemory",
    "Payload",
    "Placed",
    "Queued",
    "ReplicaChange",
    "ReplicaExit",
    "ReplicaRef",
    "ReplicasChanged",
    "Resolved",
    "ResolvedCode",
    "ResolvedImage",
    "ResolvedMount",
    "ResolvedRole",
    "RetryDecided",
    "RolePlacement",
    "Started",
    "StopRequested",
    "Stopped",
    "Submitted",
    "Succeeded",
    "Time",
    "Unknown",
    "decode",
    "encode",
    "subject_of",
]
