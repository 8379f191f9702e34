"""Cores, memory, GPUs and places for pods, as requests ask for them and as columns have them, and how to print each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.domain.gang import Gang, RoleAsk
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.layout import Ints
from shared.units import format_bytes


@dataclass(frozen=True, slots=True)
class Resource:
    """How to read one resource of a request and of columns, and how to print an amount of it."""

    name: str
    asked: Callable[[Request], int]
    free: Callable[[Columns, Request], Ints]
    text: Callable[[int], str]


def _cores(amount_m: int) -> str:
    return f"{amount_m / 1000:g} cores" if amount_m != 1000 else "1 core"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


RESOURCES: Final = (
    Resource("cpu", lambda request: request.cpu_m, lambda columns, _: columns.cpu_m, _cores),
    Resource("memory", lambda request: request.memory_bytes, lambda columns, _: columns.memory_bytes, format_bytes),
    Resource("gpu", lambda request: request.gpus, lambda columns, request: columns.free_gpus(request.gpu_model), _gpus),
    Resource("pods", lambda _: 1, lambda columns, _: columns.slots, _pods),
)


def usable_rows(role: RoleAsk, gang: Gang, columns: Columns) -> Ints:
    """Rows of the role's pool that may get new gangs and that this gang does not avoid."""
    usable = columns.layout.usable(role.pool).copy()
    usable[columns.layout.rows_named(gang.avoided)] = 0
    return np.flatnonzero(usable)


def held_of(role: RoleAsk, columns: Columns, rows: Ints) -> Ints:
    """How many of its replicas each of the rows holds."""
    return columns.holds(role.pool, role.request)[rows]


def free_of(resource: Resource, request: Request, columns: Columns, rows: Ints) -> Ints:
    """What each of the rows has free of a resource, of devices that the request may have."""
    return np.maximum(resource.free(columns, request)[rows], 0)
