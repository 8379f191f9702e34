"""What the logs service counts."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared.logs_wire import Chunk, Kept


class IngestMetrics:
    """Chunks that came, their bytes, and gaps that were found."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._chunks = Counter("trainmaster_logs_chunks", "Chunks taken.", ("kind",), registry=registry)
        self._bytes = Counter("trainmaster_logs_bytes", "Bytes of chunks taken.", ("kind",), registry=registry)
        self._gaps = Counter("trainmaster_logs_gaps", "Batches with a gap in a file.", registry=registry)
        self.followers = Gauge("trainmaster_logs_followers", "Open follow streams.", registry=registry)

    def count(self, chunks: Sequence[Chunk], answers: Sequence[Kept]) -> None:
        """Count a batch that is durable."""
        for chunk in chunks:
            self._chunks.labels(chunk.file.kind).inc()
            self._bytes.labels(chunk.file.kind).inc(len(chunk.data))
        self._gaps.inc(sum(answer.gap for answer in answers))
