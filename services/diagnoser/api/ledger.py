"""`/v1/diagnoses/nodes/{node}`: what the ledger says of a node; admins only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from services.diagnoser.domain.entries import Entry
from services.diagnoser.on_demand import OnDemand
from shared.events import Time
from shared.http.routing import CurrentUser, api_router


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class PartDocument(_Answer):
    """A device of the node, or its link to another one, about which there is a doubt."""

    part: str
    suspicion: float = Field(description="how likely it is bad, from 0 to 1")
    fails: float = Field(description="failed tests that it is to blame for; they fade")


class LastDiagnosis(_Answer):
    """The last diagnosis of the node that was meant."""

    id: str
    at: Time
    verdict: str
    problems: tuple[str, ...]
    doubts: tuple[str, ...]


class EntryDocument(_Answer):
    """What the ledger says of a node now; `health` is what was last told to the scheduler."""

    node: str
    name: str
    suspicion: float
    suspect: bool
    fails: float
    pass_until: Time | None
    health: str
    reason: str
    parts: tuple[PartDocument, ...]
    last_diagnosis: LastDiagnosis | None

    @classmethod
    def of(cls, entry: Entry, names: Mapping[str, str]) -> Self:
        """The entry as the API tells it; `names` are what people call nodes."""
        page = entry.page
        judged, diagnosed, at = page.judged, page.diagnosed, page.diagnosed_at
        return cls(
            node=entry.node,
            name=names.get(entry.node, entry.node),
            suspicion=round(entry.belief.suspicion, 4),
            suspect=entry.belief.is_suspect,
            fails=round(entry.belief.fails, 2),
            pass_until=entry.pass_until,
            health=judged.health if judged else "good",
            reason=judged.reason if judged else "",
            parts=tuple(
                PartDocument(part=_named(part, names), suspicion=round(each.suspicion, 4), fails=round(each.fails, 2))
                for part, each in entry.parts.items()
            ),
            last_diagnosis=LastDiagnosis(
                id=diagnosed.diagnosis,
                at=at,
                verdict=diagnosed.verdict,
                problems=diagnosed.problems,
                doubts=diagnosed.doubts,
            )
            if diagnosed and at
            else None,
        )


def _named(part: str, names: Mapping[str, str]) -> str:
    """A device or link by the names of its nodes."""
    nodes, _, device = part.partition("/")
    named = " – ".join(names.get(node, node) for node in nodes.split("--"))
    return f"{named} {device}".strip()


def ledger_router(on_demand: OnDemand) -> APIRouter:
    """The route about the ledger."""
    router = api_router()

    @router.get("/v1/diagnoses/nodes/{node}", tags=["diagnoses"])
    async def get_entry(user: CurrentUser, node: str) -> EntryDocument:
        """What is believed of a node, by its name or id, and why."""
        entry, names = await on_demand.entry(user, node)
        return EntryDocument.of(entry, names)

    return router
