"""What a finding says of a node's health beyond the job that it was made for.

A red finding makes the node bad, and the scheduler takes it out. Any other problem or doubt makes it suspect, since the
cause may have been the moment; a problem for another job, too, makes it bad. A green finding of a node that was tested,
and not only looked at, ends both once it is rather good than bad; so a node that was taken out returns by passing. An
admin who restores a node ends both as well.

What jobs did on a node makes it suspect, too, so that others get it last, until it was tested. A job that failed by it
counts as a problem for that job; a rank that held others up is a weak sign, and counts as none.
"""

from __future__ import annotations

from shared.events import NodeFinding, NodeJudged, NodeLagged, NodeSuspected
from shared.events.payloads.nodes import NodeHealth


def judgement(
    finding: NodeFinding, last: NodeJudged | None, job: str, cluster: str, *, tested: bool
) -> NodeJudged | None:
    """What there is to tell of the node; `last` is what was told of it since it was last restored."""
    health = _health(finding, last, job, tested=tested)
    if health is None:
        return None
    reason = "; ".join(finding.problems or finding.doubts)
    return NodeJudged(cluster=cluster, node=finding.node, health=health, reason=reason, job=job)


def _health(finding: NodeFinding, last: NodeJudged | None, job: str, *, tested: bool) -> NodeHealth | None:
    before = last.health if last else "good"
    if not finding.problems and not finding.doubts:
        return "good" if before != "good" and tested else None
    if before == "bad":
        return None
    again = before == "suspect" and bool(finding.problems) and last is not None and last.job not in ("", job)
    if finding.verdict == "red" or again:
        return "bad"
    return "suspect" if before == "good" else None


def suspicion(sign: NodeSuspected | NodeLagged | None, last: NodeJudged | None) -> NodeJudged | None:
    """What there is to tell of a node after a sign from a job; nothing where something is told of it already."""
    if sign is None or (last is not None and last.health != "good"):
        return None
    if isinstance(sign, NodeLagged):
        return NodeJudged(cluster=sign.cluster, node=sign.node, health="suspect", reason=sign.reason)
    reason = f"a job failed on it ({sign.rule})" + (f": {sign.line}" if sign.line else "")
    return NodeJudged(cluster=sign.cluster, node=sign.node, health="suspect", reason=reason, job=sign.job)
