"""What a finding says of a node's health beyond the job that it was made for.

One job's bad finding makes a node suspect, since the cause may have been the moment; a bad finding for another job
makes it bad, and the scheduler takes it out. A good finding ends a suspicion, and so does an admin who restores it.
"""

from __future__ import annotations

from shared.events import NodeFinding, NodeJudged
from shared.events.payloads.nodes import NodeHealth


def judgement(finding: NodeFinding, last: NodeJudged | None, job: str, cluster: str) -> NodeJudged | None:
    """What there is to tell of the node; `last` is what was told of it since it was last restored."""
    health = _health(finding, last, job)
    if health is None:
        return None
    return NodeJudged(cluster=cluster, node=finding.node, health=health, reason="; ".join(finding.problems), job=job)


def _health(finding: NodeFinding, last: NodeJudged | None, job: str) -> NodeHealth | None:
    before = last.health if last else "good"
    if not finding.problems:
        return "good" if before == "suspect" else None
    if before == "good":
        return "suspect"
    return "bad" if before == "suspect" and last is not None and last.job != job else None
