"""`POST /v1/rules/test`: what the rules make of logs that are sent, and what would be decided about a retry."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from services.watchdog.backtesting import Backtests
from services.watchdog.domain.backtest import Log, Match, Outcome
from shared.events import Cause, ReplicaRef
from shared.http.routing import CurrentUser, api_router
from shared.jobspec.models import FailureRetry, Retry, RetryTriggers
from shared.units import MIB

Times = tuple[tuple[int, int], ...]

LOGS_MAX: Final = 256
MAX_BODY_BYTES: Final = 16 * MIB
_ADVANCED: Final = Retry.model_validate({"maxRetries": 1, "on": {"failure": {"policy": "Advanced"}}})


class _Shape(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )


class LogText(_Shape):
    """The log of one replica."""

    role: str = Field("worker", max_length=63)
    index: int = Field(0, ge=0, le=1_000_000)
    text: str
    times: tuple[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0)]], ...] = Field(
        (), description="pairs of a line, counted from 1, and the Unix milliseconds at which it and the next were seen"
    )

    @field_validator("times")
    @classmethod
    def _in_order(cls, times: Times) -> Times:
        if any(before[0] >= after[0] for before, after in pairwise(times)):
            raise ValueError("the lines of times are not in order; give each once, the first one first")
        return times

    @property
    def log(self) -> Log:
        """The log as the domain knows it."""
        return Log(ReplicaRef(role=self.role, index=self.index), self.text.encode(), self.times)


class BacktestRequest(_Shape):
    """Logs of one attempt, that of the replica that failed first before the others."""

    logs: Annotated[list[LogText], Field(min_length=1, max_length=LOGS_MAX)]
    exit_code: int = Field(1, ge=1, le=255)
    failure: FailureRetry | None = Field(None, description="retry.on.failure of a job; default: policy Advanced")

    @property
    def retry(self) -> Retry:
        """The retry section that is judged by."""
        if self.failure is None:
            return _ADVANCED
        return _ADVANCED.model_copy(update={"on": RetryTriggers(failure=self.failure)})


class MatchDocument(_Shape):
    """A line on which a rule holds."""

    rule: str
    failure_class: str | None = Field(alias="class")
    replica: str
    number: int
    line: str
    wins: bool

    @classmethod
    def of(cls, match: Match, outcome: Outcome) -> Self:
        """The match as the API tells it."""
        return cls(
            rule=match.rule,
            failure_class=outcome.classes.get(match.rule),
            replica=f"{match.replica.role}-{match.replica.index}",
            number=match.number,
            line=match.line,
            wins=match.wins,
        )


class BacktestAnswer(_Shape):
    """What was found, the root cause, and the decision."""

    matches: list[MatchDocument]
    more: int = Field(description="matches that are left out of the list")
    cause: Cause | None
    retry: bool
    reason: str
    exclude_nodes: bool = Field(description="whether the next attempt would not get the node")

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """The outcome as the API tells it."""
        decision = outcome.decision
        return cls(
            matches=[MatchDocument.of(match, outcome) for match in outcome.matches],
            more=outcome.more,
            cause=decision.cause.model_copy(update={"node": None, "at": None}) if decision.cause else None,
            retry=decision.retry,
            reason=decision.reason,
            exclude_nodes=bool(decision.exclude_nodes),
        )


def backtests_router(backtests: Backtests) -> APIRouter:
    """The route; its body may be larger than others."""
    router = api_router(max_body_bytes=MAX_BODY_BYTES)

    @router.post("/v1/rules/test", tags=["rules"])
    async def try_rules_out(_user: CurrentUser, request: BacktestRequest) -> BacktestAnswer:
        """Which rules hold on which lines, which root cause that makes, and whether there would be another attempt."""
        logs = [each.log for each in request.logs]
        return BacktestAnswer.of(await backtests.run(logs, request.exit_code, request.retry))

    return router
