"""Which of the platform's environment variables each of its components reads.

The chart is checked against it, and on one machine, where all components share one environment, all of it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.agent import settings as agent
from services.diagnoser.settings import DiagnoserSettings
from services.logs.settings import LogsSettings
from services.scheduler.settings import SchedulerSettings
from services.submitter.settings import SubmitterSettings
from services.watchdog.settings import WatchdogSettings
from shared.settings import variables

READ_BY: Final[Mapping[str, frozenset[str]]] = {
    "submitter": variables(SubmitterSettings),
    "scheduler": variables(SchedulerSettings),
    "watchdog": variables(WatchdogSettings),
    "diagnoser": variables(DiagnoserSettings),
    "logs": variables(LogsSettings),
    "agent": agent.VARIABLES,
}


def all_variables() -> frozenset[str]:
    """Whatever any of them reads."""
    return frozenset[str]().union(*READ_BY.values())
