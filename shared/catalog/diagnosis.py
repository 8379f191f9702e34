"""What an instance type says of the diagnosis of its nodes: stages that are left out, and what is good at least."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StrictBool

from shared.catalog.fields import Memory
from shared.documents.fields import Document

_ON_OFF: Final = "true or false"
_A_FLOOR: Final = "a number over 0"
_A_SIZE: Final = "amounts from 1Mi to 4Gi such as 64Mi, at most 4 of them"
_SOME_SECONDS: Final = "seconds from 0.05 to 120"
_LARGEST: Final = 1e9
_LONGEST_S: Final = 120
_MIB: Final = 1 << 20

Floor = Annotated[float, Field(strict=True, gt=0, le=_LARGEST)]
Seconds = Annotated[float, Field(strict=True, ge=0.05, le=_LONGEST_S)]
MessageSize = Annotated[Memory, Field(ge=_MIB, le=4096 * _MIB)]


class DiagnosisStages(Document):
    """Which stages are made."""

    facts: StrictBool = Field(default=True, description=_ON_OFF)
    compute: StrictBool = Field(default=True, description=_ON_OFF)
    memory: StrictBool = Field(default=True, description=_ON_OFF)
    host_device: StrictBool = Field(default=True, description=_ON_OFF)
    devices: StrictBool = Field(default=True, description=_ON_OFF)
    pairs: StrictBool = Field(default=True, description=_ON_OFF)
    gang: StrictBool = Field(default=True, description=_ON_OFF)


class DiagnosisSeconds(Document):
    """How long a test of each stage measures at the longest, for one device, pair or gang."""

    compute: Seconds | None = Field(None, description=_SOME_SECONDS)
    memory: Seconds | None = Field(None, description=_SOME_SECONDS)
    host_device: Seconds | None = Field(None, description=_SOME_SECONDS)
    devices: Seconds | None = Field(None, description=_SOME_SECONDS)
    pairs: Seconds | None = Field(None, description=_SOME_SECONDS)
    gang: Seconds | None = Field(None, description=_SOME_SECONDS)


class DiagnosisFloors(Document):
    """The least that is good, for one device, node or pair; of `cpuMs` the most."""

    bf16_tflops: Floor | None = Field(None, description=_A_FLOOR)
    fp32_tflops: Floor | None = Field(None, description=_A_FLOOR)
    memory_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    host_device_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    device_link_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    device_all_reduce_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    device_all_to_all_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    pair_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    all_reduce_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    all_to_all_gb_s: Floor | None = Field(None, description=_A_FLOOR)
    cpu_ms: Floor | None = Field(None, description=_A_FLOOR)


class DiagnosisProfile(Document):
    """How nodes are diagnosed that replicas of the type are placed on."""

    stages: DiagnosisStages = Field(DiagnosisStages(), description="an object of stages, each true or false")
    seconds: DiagnosisSeconds = Field(DiagnosisSeconds(), description="an object of stages, each with seconds")
    floors: DiagnosisFloors = Field(DiagnosisFloors(), description="an object of floors")
    messages: tuple[MessageSize, ...] = Field((), max_length=4, description=_A_SIZE)
