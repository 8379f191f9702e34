"""`evidence`: what every rank was doing, the crowd first, then who stood out, then each process and the last lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType

from trainmaster.decoding import Document, Fields
from trainmaster.rendering.moments import date_time
from trainmaster.rendering.style import table, text, titled

MOST_FRAMES: Final = 12
MOST_RANKS: Final = 8
PROCESS_HEADERS: Final = ("REPLICA", "NODE", "PID", "RANK", "STATE", "WAITS IN", "CPU %", "COMMAND")
GPU_HEADERS: Final = ("MACHINE", "GPU", "BUSY %", "MEMORY BUSY %", "POWER W", "PIDS")


def evidence(bundle: Document) -> RenderableType:
    """The bundle for people."""
    fields = Fields.of(bundle)
    parts: list[RenderableType] = [text(line) for line in _head(fields)]
    parts += [titled(_ranks(group), _lines(_stack(group))) for group in fields.each("groups")]
    replicas = tuple(fields.each("replicas"))
    rows = [row for replica in replicas for row in _processes(replica)]
    if rows:
        parts.append(titled("Processes", table(PROCESS_HEADERS, rows)))
    if gpus := [row for machine in fields.each("gpus") for row in _gpus(machine)]:
        parts.append(titled("GPUs", table(GPU_HEADERS, gpus)))
    parts += [titled(f"Last lines of {_name(each)}", _lines(each.texts("lastLines"))) for each in _with_lines(replicas)]
    return Group(*parts)


def _head(fields: Fields) -> Iterator[str]:
    yield f"{fields.text('rule')}, attempt {fields.integer('attempt')}: {fields.text('line')}"
    yield f"taken at {date_time(fields.time('takenAt'))}: {fields.text('summary')}"
    yield from (f"stands out: {outlier}" for outlier in fields.texts("outliers"))
    yield from (f"not seen: {problem}" for problem in fields.texts("problems"))


def _ranks(group: Fields) -> str:
    ranks = group.texts("ranks")
    more = len(ranks) - MOST_RANKS
    return ", ".join(ranks[:MOST_RANKS]) + (f" and {more} more" if more > 0 else "")


def _stack(group: Fields) -> tuple[str, ...]:
    frames = group.texts("frames")
    more = len(frames) - MOST_FRAMES
    return (*frames[:MOST_FRAMES], *([f"and {more} more frames"] if more > 0 else [])) or (group.text("doing"),)


def _processes(replica: Fields) -> Iterator[tuple[object, ...]]:
    for process in replica.each("processes"):
        rank = process.optional_integer("rank")
        yield (
            _name(replica),
            replica.text("node"),
            process.integer("pid"),
            "" if rank is None else rank,
            process.text("state"),
            process.text("waitsIn"),
            f"{process.number('cpuPercent'):.0f}",
            "; ".join(filter(None, (process.text("command")[:60], process.text("problem"), _open(process)))),
        )
    if replica.text("problem"):
        yield (_name(replica), replica.text("node"), "", "", "", "", "", replica.text("problem"))


def _open(process: Fields) -> str:
    return ", ".join(
        f"{each.text('name')} {each.integer('sequence')} {each.text('state')}" for each in process.each("collectives")
    )


def _gpus(machine: Fields) -> Iterator[tuple[object, ...]]:
    for gpu in machine.each("gpus"):
        told = [gpu.document.get(name) for name in ("busyPercent", "memoryBusyPercent", "powerWatts")]
        shown = ("?" if value is None else value for value in told)
        yield (machine.text("machine"), gpu.text("name"), *shown, ", ".join(gpu.texts("pids")))


def _with_lines(replicas: tuple[Fields, ...]) -> Iterator[Fields]:
    return (replica for replica in replicas if replica.texts("lastLines"))


def _lines(lines: tuple[str, ...]) -> Group:
    return Group(*(text(line) for line in lines))


def _name(replica: Fields) -> str:
    return f"{replica.text('role')}-{replica.integer('index')}"
