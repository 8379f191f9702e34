"""What a finding says of a node's health beyond the job that it was made for.

A red finding makes the node bad, and the scheduler takes it out. Any other problem or doubt makes it suspect, since the
cause may have been the moment; a problem for another job, too, makes it bad. A green finding of a node that was tested,
and not only looked at, ends both once it is rather good than bad; so a node that was taken out returns by passing. An
admin who restores a node ends both as well.
"""

from __future__ import annotations

from shared.events import NodeFinding, NodeJudged
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
    again = before == "suspect" and bool(finding.problems) and last is not None and last.job != job
    if finding.verdict == "red" or again:
        return "bad"
    return "suspect" if before == "good" else None
