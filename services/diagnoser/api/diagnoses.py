"""`/v1/diagnoses`: have nodes diagnosed, and read reports; for admins, those of jobs for who may see the job."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.diagnoser.adapters.ledger_file import Listed
from services.diagnoser.domain.checks import Check
from services.diagnoser.on_demand import OnDemand, Wanted
from shared.events import FigureMeasured, NodeDiagnosed, PairMeasured, Time
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router

_NODES_MAX = 4096
_FAULTS_MAX = 64
_LIMIT_MAX = 200
_TYPES_MAX = 64


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class Request(BaseModel):
    """Which nodes, by name or id; `inject` pretends faults; without `thorough`, passes that hold are kept to.

    `instanceType` says by whose profile, `deep` at which level of DCGM's diagnostics, 0 for none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: tuple[str, ...] = Field(min_length=1, max_length=_NODES_MAX)
    inject: tuple[str, ...] = Field((), max_length=_FAULTS_MAX)
    thorough: bool = True
    instance_type: str = Field("", alias="instanceType", max_length=128)
    deep: int = Field(0, ge=0, le=4)


class NodeDocument(_Answer):
    """What a diagnosis says of one node; `untested` is why it was only looked at although it has no pass."""

    node: str
    name: str
    verdict: str
    tested: bool
    untested: str = ""
    about: dict[str, str] = Field(default_factory=dict)
    problems: tuple[str, ...]
    doubts: tuple[str, ...]
    facts: tuple[FigureMeasured, ...]
    figures: tuple[FigureMeasured, ...]

    @classmethod
    def of(cls, part: NodeDiagnosed) -> Self:
        """The node's part."""
        return cls(
            node=part.node,
            name=part.name or part.node,
            verdict=part.verdict,
            tested=part.fresh,
            untested=part.untested,
            about=dict(part.about),
            problems=part.problems,
            doubts=part.doubts,
            facts=part.facts,
            figures=part.figures,
        )


class DiagnosisDocument(_Answer):
    """A diagnosis: how far it is, and its report as far as it is on record.

    `by` is the admin who asked for it, `schedule` for checks in the background, and empty where it is a job's.
    """

    id: str
    state: str
    message: str = ""
    job: str = ""
    attempt: int = 0
    by: str = ""
    requested_at: Time
    began: Time
    took_s: float | None = None
    budget_s: float | None = None
    most_s: float | None = None
    node_count: int
    in_use: tuple[str, ...] = ()
    injected: tuple[str, ...] = ()
    nodes: tuple[NodeDocument, ...] = ()
    pairs: tuple[PairMeasured, ...] = ()

    @classmethod
    def of(cls, check: Check | None, parts: tuple[NodeDiagnosed, ...]) -> Self:
        """The diagnosis as the API tells it; one of both must be there."""
        first = parts[0] if parts else None
        whole = first is not None and len(parts) == first.node_count
        return cls(
            id=check.id if check else first.diagnosis if first else "",
            state=check.state if check else "finished" if whole else "partial",
            message=check.message if check else "",
            job=first.job if first else "",
            attempt=first.attempt if first else 0,
            by=check.requested.by if check else "",
            requested_at=check.requested_at if check else first.began if first else None,
            began=(check.began_at or check.requested_at) if check else first.began if first else None,
            took_s=first.took_s if first else None,
            budget_s=check.requested.budget_s if check else None,
            most_s=check.requested.most_s if check else None,
            node_count=len(check.requested.nodes) if check else first.node_count if first else 0,
            in_use=check.in_use if check else (),
            injected=check.requested.inject if check else first.injected if first else (),
            nodes=tuple(NodeDocument.of(part) for part in parts),
            pairs=tuple(pair for part in parts for pair in part.pairs),
        )

    @classmethod
    def listed(cls, check: Check | None, report: Listed | None) -> Self:
        """The diagnosis without its figures; one of both must be there."""
        document = cls.of(check, (report.first,) if report else ())
        whole = report is not None and report.parts == report.first.node_count
        state = check.state if check else "finished" if whole else "partial"
        return document.model_copy(update={"state": state, "nodes": (), "pairs": ()})


class PlanRequest(BaseModel):
    """How many GPUs of each node a job would get, and what its roles are made by."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: dict[str, Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=_NODES_MAX)
    instance_types: tuple[str, ...] = Field((), alias="instanceTypes", max_length=_TYPES_MAX)


class PlanDocument(_Answer):
    """How long the diagnosis of a job will take: as planned, at most, and which nodes have no pass that holds."""

    budget_s: float
    most_s: float
    tested: tuple[str, ...]


class ListQuery(BaseModel):
    """How many reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(50, ge=1, le=_LIMIT_MAX, description="most items to return")


def diagnoses_router(on_demand: OnDemand) -> APIRouter:
    """The routes about diagnoses."""
    router = api_router()

    @router.post("/v1/diagnoses", tags=["diagnoses"], status_code=202)
    async def begin(user: CurrentUser, request: Request) -> DiagnosisDocument:
        """Have nodes diagnosed; the answer says how long it will take, before it begins."""
        wanted = Wanted(
            request.nodes, request.inject, request.thorough, instance_type=request.instance_type, deep=request.deep
        )
        return DiagnosisDocument.of(await on_demand.begin(user, wanted), ())

    @router.post("/v1/diagnoses/plans", tags=["diagnoses"])
    async def plan(_user: CurrentUser, request: PlanRequest) -> PlanDocument:
        """How long the diagnosis of a job would take, if it got these nodes."""
        found = await on_demand.budget(request.nodes, request.instance_types)
        return PlanDocument(budget_s=found.budget_s, most_s=found.most_s, tested=found.tested)

    @router.get("/v1/diagnoses", tags=["diagnoses"])
    async def list_diagnoses(user: CurrentUser, query: Annotated[ListQuery, Query()]) -> Page[DiagnosisDocument]:
        """The latest diagnoses, of jobs and of admins, newest first; without figures."""
        found = await on_demand.reports(user, query.limit)
        return Page(items=[DiagnosisDocument.listed(check, report) for check, report in found])

    @router.get("/v1/diagnoses/{diagnosis}", tags=["diagnoses"])
    async def get_diagnosis(user: CurrentUser, diagnosis: str) -> DiagnosisDocument:
        """One diagnosis with its report: of a job's attempt the id is `<job>-<attempt>`."""
        return DiagnosisDocument.of(*(await on_demand.find(user, diagnosis)))

    @router.delete("/v1/diagnoses/{diagnosis}", tags=["diagnoses"])
    async def cancel(user: CurrentUser, diagnosis: str) -> DiagnosisDocument:
        """End a diagnosis that an admin has asked for, whether it waits or runs; its processes end at once."""
        return DiagnosisDocument.of(await on_demand.cancel(user, diagnosis), ())

    return router
