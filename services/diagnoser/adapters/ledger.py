"""The ledger of node health: the last judgement of each node on the stream `NODES`, which other services read."""

from __future__ import annotations

from services.diagnoser.domain.health import judgement
from shared.bus import Bus
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.clock import Clock
from shared.events import Event, NodeFinding, NodeJudged, NodeMarked


class HealthLedger:
    """Remembers nodes across jobs."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock

    async def take(self, finding: NodeFinding, job: str, attempt: int, cluster: str) -> None:
        """Put on record what the finding says of its node, where that is news; raises BusUnavailableError."""
        subject = f"tm.node.{Cluster.id_of(cluster)}.{finding.node}"
        judged = judgement(finding, await self._last(subject), job, cluster)
        if judged is not None:
            event = Event.of(
                judged,
                job=finding.node,
                attempt=0,
                time=self._clock.now(),
                owner="",
                project="",
                part=f"{job}/{attempt}/{judged.health}",
            )
            await self._bus.observe(event, subject=f"{subject}.{judged.SUFFIX}")

    async def _last(self, subject: str) -> NodeJudged | None:
        """The last judgement, unless an admin has restored the node since."""
        judged = await self._bus.history.last_event(f"{subject}.{NodeJudged.SUFFIX}", stream=NODES)
        marked = await self._bus.history.last_event(f"{subject}.{NodeMarked.SUFFIX}", stream=NODES)
        if judged is None or not isinstance(judged.event.data, NodeJudged):
            return None
        mark = marked.event.data if marked and marked.sequence > judged.sequence else None
        return None if isinstance(mark, NodeMarked) and mark.wish == "Ready" else judged.event.data
