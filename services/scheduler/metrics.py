"""What the scheduler tells Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class SchedulerMetrics:
    """The scheduler's own figures, in its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge(
            "trainmaster_scheduler_leader", "1 while this scheduler is the active one.", registry=registry
        )
        self.queued = Gauge("trainmaster_scheduler_queued_gangs", "Gangs that wait for a place.", registry=registry)
        self.placed = Counter("trainmaster_scheduler_placed_gangs", "Gangs that got a place.", registry=registry)
        self.transitions = Counter(
            "trainmaster_scheduler_transitions", "Transitions put on record, by event.", ("event",), registry=registry
        )
        self.nodes = Gauge("trainmaster_scheduler_nodes", "Nodes, by state.", ("state",), registry=registry)
        self.withheld = Gauge(
            "trainmaster_scheduler_withheld_quarantines",
            "Nodes that would be quarantined if too much of a pool were not missing then.",
            registry=registry,
        )
