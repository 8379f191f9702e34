"""What `/v1/resources` answers: CPU, memory and GPUs of each replica."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU that the replica's processes use."""

    id: str
    busy_percent: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicaResources:
    """What a replica used at its last sample, the most it used, and its CPU over time."""

    attempt: int
    role: str
    index: int
    at: datetime | None
    cpu_cores: float
    memory_bytes: int
    processes: int
    gpus: tuple[GpuUse, ...]
    peak_memory_bytes: int
    cpu_over_time: tuple[float, ...]
    document: Document

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"

    @classmethod
    def of(cls, fields: Fields) -> ReplicaResources:
        """One entry of the `replicas` of `/v1/resources/{job}`."""
        latest, history = fields.fields("latest"), fields.fields("history")
        gpus = (
            GpuUse(gpu.text("id"), gpu.number("busyPercent"), gpu.integer("memoryBytes")) for gpu in latest.each("gpus")
        )
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            index=fields.integer("index"),
            at=latest.time("at"),
            cpu_cores=latest.number("cpuCores"),
            memory_bytes=latest.integer("memoryBytes"),
            processes=latest.integer("processes"),
            gpus=tuple(gpus),
            peak_memory_bytes=fields.fields("peak").integer("memoryBytes"),
            cpu_over_time=tuple(float(cores) for cores in history.document.get("cpuCores") or ()),
            document=dict(fields.document),
        )
