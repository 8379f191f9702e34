"""What the job document tells of an attempt's diagnosis: verdicts on nodes, and which nodes were replaced after it."""

from __future__ import annotations

from typing import Self

from services.submitter.domain.answers import Answer
from shared.events import DiagnosisFinished, Time
from shared.jobs import Attempt, Replaced


class NodeVerdict(Answer):
    """What a diagnosis says of one node: what is wrong with it, in words, and the figures that were measured.

    `doubts` are failures that may be somebody else's, or of the moment; they fail nothing. `verdict` is green, amber or
    red, and null in records from before there was one. `untested` says why the node was only looked at although it has
    no pass: a job is on it, or its tests were broken off.
    """

    node: str
    node_name: str
    passed: bool
    verdict: str | None
    problems: list[str]
    doubts: list[str]
    untested: str
    figures: dict[str, float]


class Diagnosis(Answer):
    """The look at the nodes before the attempt starts; `passed` is null until it is finished.

    `bad_nodes` are the names of the nodes that failed. Of very many nodes `nodes` leaves some out that are green.
    """

    requested_at: Time
    finished_at: Time | None
    passed: bool | None
    node_count: int
    bad_nodes: list[str]
    message: str
    nodes: list[NodeVerdict]

    @classmethod
    def of(cls, attempt: Attempt) -> Self | None:
        """The diagnosis as the API tells it; None where none was asked for."""
        told = attempt.diagnosis or DiagnosisFinished(passed=False)
        if attempt.diagnosis_requested_at is None:
            return None
        names = {replica.node: replica.where for replica in attempt.replicas.values()}
        return cls(
            requested_at=attempt.diagnosis_requested_at,
            finished_at=attempt.diagnosed_at,
            passed=told.passed if attempt.diagnosis else None,
            node_count=told.node_count or len(told.findings),
            bad_nodes=[names.get(node, node) for node in told.bad_nodes],
            message=told.message,
            nodes=[
                NodeVerdict(
                    node=finding.node,
                    node_name=names.get(finding.node, finding.node),
                    passed=finding.node not in told.bad_nodes,
                    verdict=finding.verdict,
                    problems=list(finding.problems),
                    doubts=list(finding.doubts),
                    untested=finding.untested,
                    figures=finding.figures,
                )
                for finding in told.findings
            ],
        )


class ReplacedNodes(Answer):
    """Nodes that left the attempt after a round of its diagnosis, and those that came; all by name."""

    at: Time
    round: int
    left: list[str]
    taken: list[str]
    reason: str

    @classmethod
    def of(cls, replaced: Replaced) -> Self:
        """The replacement as the API tells it; `round` is the one that it began."""
        change = replaced.change
        return cls(
            at=replaced.at,
            round=change.round,
            left=[change.names.get(node, node) for node in change.left],
            taken=[change.names.get(node, node) for node in change.taken],
            reason=change.reason,
        )
