"""The payloads: one class a kind of event, with its type, subject, kind and author."""

from __future__ import annotations

from typing import Final

from shared.events.payloads.base import Author, Kind, Payload, Unknown
from shared.events.payloads.names import LeaderElected, NameClaimed, NameReleased
from shared.events.payloads.nodes import NodeChanged, NodeJudged, NodeMarked, NodeReported, NodeSuspected
from shared.events.payloads.observations import (
    CodeResolved,
    DiagnosisFinished,
    DiagnosisRequested,
    EvidenceCollected,
    IncidentRaised,
    LogsRemoved,
    ProgressReported,
    ReplicasChanged,
)
from shared.events.payloads.platform import OutageSuspected
from shared.events.payloads.transitions import (
    Admitted,
    AttemptEnded,
    Deleted,
    Failed,
    Placed,
    PreemptionRequested,
    Queued,
    RetryDecided,
    Started,
    Stopped,
    StopRequested,
    Submitted,
    Succeeded,
)
from shared.events.payloads.usage import Usage, UsageCorrected, UsageMetered

PAYLOADS: Final[tuple[type[Payload], ...]] = (
    Submitted,
    Queued,
    Placed,
    Admitted,
    Started,
    StopRequested,
    PreemptionRequested,
    AttemptEnded,
    RetryDecided,
    Succeeded,
    Failed,
    Stopped,
    Deleted,
    ReplicasChanged,
    CodeResolved,
    DiagnosisRequested,
    DiagnosisFinished,
    IncidentRaised,
    LogsRemoved,
    EvidenceCollected,
    ProgressReported,
    NameClaimed,
    NameReleased,
    LeaderElected,
    NodeReported,
    NodeMarked,
    NodeJudged,
    NodeChanged,
    NodeSuspected,
    OutageSuspected,
    UsageMetered,
    UsageCorrected,
)
PAYLOAD_OF_TYPE: Final[dict[str, type[Payload]]] = {payload.TYPE: payload for payload in PAYLOADS}

__all__ = [
    "PAYLOADS",
    "PAYLOAD_OF_TYPE",
    "Admitted",
    "AttemptEnded",
    "Author",
    "CodeResolved",
    "Deleted",
    "DiagnosisFinished",
    "DiagnosisRequested",
    "EvidenceCollected",
    "Failed",
    "IncidentRaised",
    "Kind",
    "LeaderElected",
    "LogsRemoved",
    "NameClaimed",
    "NameReleased",
    "NodeChanged",
    "NodeJudged",
    "NodeMarked",
    "NodeReported",
    "NodeSuspected",
    "OutageSuspected",
    "Payload",
    "Placed",
    "PreemptionRequested",
    "ProgressReported",
    "Queued",
    "ReplicasChanged",
    "RetryDecided",
    "Started",
    "StopRequested",
    "Stopped",
    "Submitted",
    "Succeeded",
    "Unknown",
    "Usage",
    "UsageCorrected",
    "UsageMetered",
]
