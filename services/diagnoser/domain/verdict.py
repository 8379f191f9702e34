"""Whether nodes are fit for a job, judged from what was measured on them: pure.

Each figure is judged by itself against its floor, never as a sum with others. A node that did not answer in time is
bad: a missing answer is a result. The checksum of the matrix multiplication has one right value; a CPU that gave
another, or none, makes its node bad.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from services.diagnoser.domain.facts import Floors, facts_of
from services.diagnoser.domain.hardware import broken_devices, missing_devices, of_the_moment
from services.diagnoser.domain.readings import Reading
from shared.agent_wire import Measurement
from shared.events import DiagnosisFinished, NodeFinding
from shared.units import KIB

GOLDEN_CHECKSUM: Final = "48167b6c"
MAX_NAMED: Final = 20
# An event is at most 256 KiB, and the names of thousands of nodes need room, too.
FINDINGS_MAX_BYTES: Final = 160 * KIB


def judge(
    node: str,
    reading: Reading | None,
    devices: Collection[str],
    floors: Floors,
    *,
    facts: bool = True,
    idle: bool = True,
) -> NodeFinding:
    """What is found on a node that is to give the job these devices; `reading` is None where no answer came.

    Without `facts` only devices that are missing are a problem. Where it is not `idle`, others may use its devices.
    """
    if reading is None:
        return NodeFinding(node=node, problems=("its agent gave no measurement in time",))
    return NodeFinding(
        node=node,
        problems=tuple(
            _problems(reading, devices, floors, idle=idle) if facts else missing_devices(reading.measurement, devices)
        ),
        figures=_figures(reading.measurement),
    )


def broken(reading: Reading | None, devices: Collection[str]) -> frozenset[str]:
    """Those problems that are a broken device's, and not of the moment."""
    if reading is None:
        return frozenset()
    return frozenset((*_wrong(reading.measurement), *broken_devices(reading.measurement, devices)))


def conclude(findings: Iterable[NodeFinding], names: Mapping[str, str]) -> DiagnosisFinished:
    """The outcome over all nodes, in the order of their ids; the message has their names, where there are any."""
    ordered = tuple(sorted(findings, key=lambda finding: finding.node))
    bad = [finding for finding in ordered if finding.problems]
    named = [f"{names.get(finding.node, finding.node)}: {', '.join(finding.problems)}" for finding in bad[:MAX_NAMED]]
    more = [f"and {len(bad) - MAX_NAMED} more nodes"] if len(bad) > MAX_NAMED else []
    untested = [finding for finding in ordered if finding.untested]
    return DiagnosisFinished(
        passed=not bad,
        bad_nodes=tuple(finding.node for finding in bad),
        message="; ".join([*named, *more, *_not_tested(untested, names)]),
        findings=_told(ordered),
        node_count=len(ordered),
        doubtful_nodes=tuple(finding.node for finding in sorted(ordered, key=_most_doubts) if _is_doubtful(finding)),
        untested_nodes=tuple(finding.node for finding in untested),
    )


def _not_tested(untested: Sequence[NodeFinding], names: Mapping[str, str]) -> Iterator[str]:
    for finding in untested[:MAX_NAMED]:
        yield f"{names.get(finding.node, finding.node)} was not tested: {finding.untested}"
    if len(untested) > MAX_NAMED:
        yield f"and {len(untested) - MAX_NAMED} more nodes were not tested"


def _told(findings: Sequence[NodeFinding]) -> tuple[NodeFinding, ...]:
    """As many as one event holds, those with something wrong before the others; a node's part of the report has all."""
    kept, size = [], 0
    for finding in sorted(findings, key=lambda finding: finding.verdict == "green" and not finding.untested):
        size += len(finding.model_dump_json(by_alias=True).encode())
        if size > FINDINGS_MAX_BYTES:
            break
        kept.append(finding)
    return tuple(sorted(kept, key=lambda finding: finding.node))


def _is_doubtful(finding: NodeFinding) -> bool:
    return bool(finding.doubts) and not finding.problems


def _most_doubts(finding: NodeFinding) -> int:
    return -len(finding.doubts)


def _problems(reading: Reading, devices: Collection[str], floors: Floors, *, idle: bool) -> Iterator[str]:
    measured = reading.measurement
    yield from _wrong(measured)
    yield from (fact.why for fact in facts_of(reading, floors) if fact.why)
    yield from (f"{place} cannot be written" for place in measured.read_only)
    yield from (f"{place} cannot be read" for place in measured.unreachable)
    if not measured.resolves:
        yield "its own name has no address"
    yield from (f"the name {name} has no address there" for name in measured.unresolved)
    yield from broken_devices(measured, devices)
    yield from of_the_moment(measured, devices, idle=idle)


def _wrong(measured: Measurement) -> Iterator[str]:
    for checksum, cpus in sorted(measured.checksums.items()):
        if checksum != GOLDEN_CHECKSUM:
            yield f"{_cpus(cpus)} computed wrong: checksum {checksum} instead of {GOLDEN_CHECKSUM}"
    answered = {cpu for cpus in measured.checksums.values() for cpu in cpus}
    silent = sorted(set(measured.cpus) - answered)
    if silent or not measured.cpus:
        yield f"{_cpus(silent)} did not finish the matrix multiplication"


def _cpus(cpus: Collection[int]) -> str:
    named = ", ".join(str(cpu) for cpu in sorted(cpus)[:MAX_NAMED])
    return f"CPU {named or 'none'}" + (f" and {len(cpus) - MAX_NAMED} more" if len(cpus) > MAX_NAMED else "")


def _figures(measured: Measurement) -> Mapping[str, float]:
    return {
        "cpus": len(measured.cpus),
        "memoryBytes": measured.memory_bytes,
        "memoryFreeBytes": measured.memory_free_bytes,
        "diskFreeBytes": measured.disk_free_bytes,
        "shmFreeBytes": measured.shm_free_bytes,
        "openFiles": measured.open_files,
        "load": measured.load,
        "gemmMs": round(measured.gemm_ms, 1),
        "gpus": len(measured.gpus),
        **{f"{device}Ms": round(ms, 1) for device, ms in measured.device_ms.items()},
    }
