"""`/v1/resources`: CPU, memory and GPUs of each replica, now and over the attempt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from services.logs.adapters.jobs import Jobs
from services.logs.domain.resource_history import History
from services.logs.resources import ResourceReader, SampledReplica
from shared.auth.principal import Principal
from shared.clock import rfc3339
from shared.http.routing import CurrentUser, api_router
from shared.resource_samples import Sample


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, validate_by_name=True, serialize_by_alias=True)


class ResourcesQuery(BaseModel):
    """Of which attempt, and whether over time."""

    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(None, ge=1, description="default: the last attempt that was sampled")
    history: bool = Field(default=False, description="with the whole attempt in columns")


class GpuNow(_Answer):
    """One GPU that the replica's processes use."""

    id: str
    busy_percent: float | None = Field(alias="busyPercent")
    memory_bytes: int | None = Field(alias="memoryBytes")


class Now(_Answer):
    """The last sample."""

    at: str
    cpu_cores: float = Field(alias="cpuCores")
    memory_bytes: int = Field(alias="memoryBytes")
    processes: int
    gpus: list[GpuNow]

    @classmethod
    def of(cls, sample: Sample) -> Now:
        gpus = [GpuNow(id=gpu.id, busy_percent=gpu.busy_percent, memory_bytes=gpu.memory_bytes) for gpu in sample.gpus]
        return cls(
            at=_time(sample.at_ms),
            cpu_cores=sample.cpu_cores,
            memory_bytes=sample.memory_bytes,
            processes=sample.processes,
            gpus=gpus,
        )


class Peak(_Answer):
    """The most of each."""

    cpu_cores: float = Field(alias="cpuCores")
    memory_bytes: int = Field(alias="memoryBytes")
    gpu_memory_bytes: int = Field(alias="gpuMemoryBytes")


class OverTime(_Answer):
    """Columns of the same length; GPU figures are sums over the replica's GPUs."""

    times: list[str]
    cpu_cores: list[float] = Field(alias="cpuCores")
    memory_bytes: list[int] = Field(alias="memoryBytes")
    gpu_busy_percent: list[float] = Field(alias="gpuBusyPercent")
    gpu_memory_bytes: list[int] = Field(alias="gpuMemoryBytes")

    @classmethod
    def of(cls, history: History) -> OverTime:
        entries = history.entries
        return cls(
            times=[_time(entry.at_ms) for entry in entries],
            cpu_cores=[round(entry.cpu_cores, 3) for entry in entries],
            memory_bytes=[entry.memory_bytes for entry in entries],
            gpu_busy_percent=[round(entry.gpu_busy_percent, 1) for entry in entries],
            gpu_memory_bytes=[entry.gpu_memory_bytes for entry in entries],
        )


class ReplicaResources(_Answer):
    """What one replica uses."""

    attempt: int
    role: str
    index: int
    latest: Now
    peak: Peak
    history: OverTime | None = None

    @classmethod
    def of(cls, sampled: SampledReplica, latest: Sample, *, history: bool) -> ReplicaResources:
        replica, found = sampled.replica, sampled.history
        peak = Peak(
            cpu_cores=found.peak_cpu_cores,
            memory_bytes=found.peak_memory_bytes,
            gpu_memory_bytes=found.peak_gpu_memory_bytes,
        )
        return cls(
            attempt=replica.attempt,
            role=replica.role,
            index=replica.index,
            latest=Now.of(latest),
            peak=peak,
            history=OverTime.of(found) if history else None,
        )


class Resources(_Answer):
    """All replicas of an attempt."""

    replicas: list[ReplicaResources]


@dataclass(frozen=True, slots=True)
class ResourceHandlers:
    """Who may ask, and the answer."""

    jobs: Jobs
    reader: ResourceReader

    async def resources(self, principal: Principal, reference: str, query: ResourcesQuery) -> Resources:
        """What the replicas of a job use."""
        job = await self.jobs.find(principal, reference)
        return await asyncio.to_thread(self._read, job.id, query)

    def _read(self, job: str, query: ResourcesQuery) -> Resources:
        found = self.reader.sampled(job, query.attempt)
        return Resources(
            replicas=[
                ReplicaResources.of(sampled, sampled.history.latest, history=query.history)
                for sampled in found
                if sampled.history.latest is not None
            ]
        )


def resources_router(handlers: ResourceHandlers) -> APIRouter:
    """The route about resources."""
    router = api_router()

    @router.get("/v1/resources/{job}", tags=["resources"], response_model=Resources)
    async def read_resources(user: CurrentUser, job: str, query: Annotated[ResourcesQuery, Query()]) -> Response:
        """The last sample and the peaks of each replica; samples are some seconds apart."""
        found = await handlers.resources(user, job, query)
        return JSONResponse(found.model_dump(mode="json"))

    return router


def _time(at_ms: int) -> str:
    return rfc3339(datetime.fromtimestamp(at_ms / 1000, UTC))
