"""Settings of the diagnoser; each field is the environment variable `TRAINMASTER_<FIELD>`.

The floors are low: they find nodes that are broken, not nodes that are busy.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from services.diagnoser.domain.checking import Schedule
from services.diagnoser.domain.facts import Floors
from shared.settings import ServiceSettings
from shared.units import MIB

_FLOORS = Floors()


class CheckingSettings(BaseModel):
    """When idle nodes are checked in the background."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check_every_h: float = Field(0.0, ge=0, description="hours after which an idle node is tested again; 0 is never")
    check_hours: str = Field("", description="hours of the day, UTC, for that, such as 1-5; empty is all day")

    @field_validator("check_hours")
    @classmethod
    def _hours(cls, text: str) -> str:
        Schedule.parse(1, text)
        return text


class LimitSettings(BaseModel):
    """How long nodes may take to answer, and what they must have at least."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    probe_deadline_s: float = Field(30.0, gt=0, le=50, description="time within which each node is to be measured")
    floor_disk_free_mib: int = Field(_FLOORS.disk_free_bytes // MIB, ge=0, description="free room on the disk")
    floor_shm_free_mib: int = Field(_FLOORS.shm_free_bytes // MIB, ge=0, description="free room in /dev/shm")
    floor_memory_free_mib: int = Field(_FLOORS.memory_free_bytes // MIB, ge=0, description="free memory")
    floor_open_files: int = Field(_FLOORS.open_files, ge=0, description="files that a process may open")
    limit_gemm_ms: float = Field(_FLOORS.gemm_ms, gt=0, description="time of the matrix multiplication")
    limit_clock_skew_s: float = Field(_FLOORS.clock_skew_s, ge=0, description="how far a clock may be off")

    @property
    def floors(self) -> Floors:
        """What a node must have at least, or at most."""
        return Floors(
            disk_free_bytes=self.floor_disk_free_mib * MIB,
            shm_free_bytes=self.floor_shm_free_mib * MIB,
            memory_free_bytes=self.floor_memory_free_mib * MIB,
            open_files=self.floor_open_files,
            gemm_ms=self.limit_gemm_ms,
            clock_skew_s=self.limit_clock_skew_s,
        )


class DiagnoserSettings(ServiceSettings, CheckingSettings, LimitSettings):
    """What the service must be told."""

    nats_user: str = "diagnoser"
    home: Path = Field(Path.home() / ".trainmaster", description="directory that holds the read model")

    @property
    def schedule(self) -> Schedule:
        """When idle nodes are checked in the background."""
        return Schedule.parse(self.check_every_h, self.check_hours)

    @property
    def readmodel_file(self) -> Path:
        """Where the read model of jobs is."""
        return self.home / "readmodels" / "diagnoser.sqlite"

    @property
    def ledger_file(self) -> Path:
        """Where the ledger of node health is."""
        return self.home / "readmodels" / "diagnoser-ledger.sqlite"
