"""A node's part of the report of a diagnosis, made of what was examined. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.examination import Examination
from shared.events import NodeDiagnosed, NodeFinding


@dataclass(frozen=True, slots=True)
class Occasion:
    """Which diagnosis this is: for a job's attempt, or for an admin."""

    diagnosis: str
    cluster: str
    began: datetime
    names: Mapping[str, str]
    job: str = ""
    attempt: int = 0
    injected: tuple[str, ...] = ()


def diagnosis_id(job: str, attempt: int, number: int) -> str:
    """What a round of the diagnosis of a job's attempt is called: the first round has no number of its own."""
    return f"{job}-{attempt}" + ("" if number == 1 else f"-r{number}")


def part_of(
    examination: Examination,
    finding: NodeFinding,
    occasion: Occasion,
    before: Mapping[str, Belief],
    *,
    node_count: int,
    now: datetime,
) -> NodeDiagnosed:
    """The part of the node that the finding is about."""
    node = finding.node
    return NodeDiagnosed(
        cluster=occasion.cluster,
        node=node,
        name=occasion.names.get(node, node),
        diagnosis=occasion.diagnosis,
        job=occasion.job,
        attempt=occasion.attempt,
        began=occasion.began,
        took_s=round((now - occasion.began).total_seconds(), 3),
        node_count=node_count,
        kind=examination.kind(node),
        verdict=finding.verdict or "green",
        fresh=examination.was_tested(node),
        problems=finding.problems,
        doubts=finding.doubts,
        facts=examination.facts(node),
        figures=examination.all_figures(node),
        about=examination.about(node),
        pairs=examination.pairs(node),
        beliefs=examination.beliefs(node, before),
        stages=examination.stages(node),
        gang=examination.gang if examination.was_loaded(node) else "",
        injected=occasion.injected,
        untested=finding.untested,
    )
