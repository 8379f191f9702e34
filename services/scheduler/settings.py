"""Settings of the scheduler; each field is the environment variable `TRAINMASTER_<FIELD>`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from services.scheduler.domain.split import Split
from services.scheduler.engines.kubernetes.settings import KubernetesSettings
from shared.asset_settings import AssetSettings
from shared.jobspec.models import FIRST_CLUSTER


class QuarantineSettings(BaseModel):
    """How far nodes are taken out without an admin; the launcher reads it from its own environment."""

    model_config = ConfigDict(frozen=True)

    quarantine_max_percent: int = Field(
        10, ge=0, le=100, description="how much of a pool may be quarantined without an admin, and one node of several"
    )


class SchedulerSettings(AssetSettings, QuarantineSettings, KubernetesSettings):
    """What every service needs, and where and on what the engine runs replicas."""

    nats_user: str = "scheduler"
    engine: Literal["local", "kubernetes"] = Field(
        "local", validate_default=True, description="what runs replicas: this machine, or a Kubernetes cluster"
    )
    home: Path = Field(Path.home() / ".trainmaster", description="directory that holds gangs and read models")
    cluster: str = Field(FIRST_CLUSTER, min_length=1, description="name of the cluster that jobs are placed in")
    machine: str = Field(default_factory=socket.gethostname, min_length=1, description="name of this machine")
    nodes: int = Field(1, ge=1, le=64, description="as how many nodes the local engine offers this machine")
    leaves: int = Field(0, ge=0, le=64, description="under how many leaf switches these nodes stand; 0 has no labels")
    spines: int = Field(
        0,
        ge=0,
        le=64,
        validate_default=True,
        description="under how many spine switches the leaves stand; 0 has no labels",
    )
    instance: str = Field("", description="name of this scheduler among several; each needs a home of its own, too")

    @field_validator("engine")
    @classmethod
    def _has_clusters(cls, engine: str, info: ValidationInfo) -> str:
        """Clusters are Kubernetes'."""
        if engine != "kubernetes" and info.data.get("kube_contexts"):
            raise ValueError("give kubernetes, since kube_contexts names clusters")
        return engine

    @field_validator("spines")
    @classmethod
    def _adds_up(cls, spines: int, info: ValidationInfo) -> int:
        """Switches stand over what was checked before them."""
        if info.data.keys() >= {"nodes", "leaves"}:
            problem = Split(info.data["nodes"], info.data["leaves"], spines).problem
            if problem:
                raise ValueError(problem)
        return spines

    @property
    def split(self) -> Split:
        """The machine as the local engine offers it."""
        return Split(self.nodes, self.leaves, self.spines)

    @property
    def readmodel_file(self) -> Path:
        """Where the read model of jobs is."""
        return self.home / "readmodels" / "scheduler.sqlite"

    @property
    def usage_file(self) -> Path:
        """Where the usage book is."""
        return self.home / "readmodels" / "usage.sqlite"

    @property
    def identity(self) -> str:
        """Who holds the lease: the home, since one scheduler a home runs, unless this is one of several."""
        return self.instance or f"{self.machine}:{self.home}"
