"""`/v1/plans`: what would become of a job that is not submitted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from services.scheduler.domain.trial_plan import TrialPlan
from services.scheduler.domain.views import standing_document
from services.scheduler.handlers.plans import PlanHandlers
from shared.catalog.fields import format_price
from shared.http.routing import CurrentUser, api_router
from shared.units import MIB

Json = dict[str, Any]
JobBody = Annotated[Any, Body(description="the job as kind: TrainingJob")]

_TOLD = (
    "summary",
    "position",
    "rivals",
    "blockers",
    "held",
    "changes",
    "suggestions",
    "expectedStartAt",
    "neverFits",
    "warnings",
)


def plans_router(handlers: PlanHandlers) -> APIRouter:
    """The one route about plans."""
    router = api_router(max_body_bytes=MIB)

    @router.post("/v1/plans", tags=["plans"])
    async def plan(
        user: CurrentUser, document: Annotated[Any, Body(description="the job as kind: TrainingJob")]
    ) -> Json:
        """Whether a job would be taken, whether and where it would start now, at what price, what it would wait for."""
        return _document(await handlers.plan(user, document))

    return router


def _document(plan: TrialPlan) -> Json:
    price = plan.price_micros_per_hour
    told = standing_document(plan.standing)
    return {
        "valid": True,
        "starts": plan.starts,
        "cluster": plan.cluster,
        "placement": [
            {
                "role": role.role,
                "pool": role.pool,
                "gpus": role.gpus,
                "instanceType": role.instance_type,
                "nodes": [{"node": node, "replicas": replicas} for node, replicas in role.nodes],
            }
            for role in plan.placement
        ],
        "differences": list(plan.differences),
        "pricePerHour": None if price is None else format_price(price),
        **{name: told[name] for name in _TOLD},
    }
