"""What the platform says about jobs, as frozen values; each keeps or is made of one JSON document of the API.

Catalog documents stay JSON.
"""

from __future__ import annotations

from trainmaster.documents.answers import Applied, Page, Upload
from trainmaster.documents.burn_in import BurnIn, SlowRank
from trainmaster.documents.events import JobEvent
from trainmaster.documents.explanations import Blocker, Change, Explanation, Holder, Plan
from trainmaster.documents.jobs import (
    ENDED_STATES,
    Attempt,
    Decision,
    Diagnosis,
    Evidence,
    Incident,
    Job,
    Replaced,
    Replica,
    ReplicaExit,
)
from trainmaster.documents.logs import LogBegin, LogChunk, LogPage, LogSource
from trainmaster.documents.progress import Progress
from trainmaster.documents.scalars import Curve, ScalarPoint

__all__ = [
    "ENDED_STATES",
    "Applied",
    "Attempt",
    "Blocker",
    "BurnIn",
    "Change",
    "Curve",
    "Decision",
    "Diagnosis",
    "Evidence",
    "Explanation",
    "Holder",
    "Incident",
    "Job",
    "JobEvent",
    "LogBegin",
    "LogChunk",
    "LogPage",
    "LogSource",
    "Page",
    "Plan",
    "Progress",
    "Replaced",
    "Replica",
    "ReplicaExit",
    "ScalarPoint",
    "SlowRank",
    "Upload",
]
