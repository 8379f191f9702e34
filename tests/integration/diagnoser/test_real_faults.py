"""The whole procedure with the real probe and the real workers of this machine: faults are found, and none without.

Figures are measured once, by a diagnosis of three nodes that are shares of this machine; each fault is then pretended
on what was measured, as `--inject` does, and judged beside what the same machine gave before. Bandwidths between shares
of a machine on which other work runs differ several times over, so a slow link is told by a floor here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from services.diagnoser.asking import Subject
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.examination import Examination
from services.diagnoser.domain.facts import Floors
from services.diagnoser.domain.injection import read_injections
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import Profile
from services.diagnoser.procedure import Procedure
from shared.clock import SystemClock
from shared.diagnosis_wire import TestAnswer, TestRequest
from tests.support.ledgers import remember
from tests.support.real_agents import RealAgents

pytest.importorskip("torch")
SESSION = "dg-1"
NODES = ("n-1", "n-2", "n-3")
LENIENT = Floors(0, 0, 0, 0)


@dataclass
class Replayed:
    """Asks the machine the first time, and gives the same answer to the same question again."""

    machine: RealAgents
    readings: dict[str, Reading] = field(default_factory=dict)
    answers: dict[tuple[object, ...], TestAnswer] = field(default_factory=dict)

    async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
        if not self.readings:
            self.readings = await self.machine.probe(machine, NODES, places)
        return {node: self.readings[node] for node in nodes}

    async def test(self, machine: str, request: TestRequest) -> TestAnswer:
        key = (request.node, request.test, tuple(peer.node for peer in request.peers))
        if key not in self.answers:
            self.answers[key] = await self.machine.test(machine, replace(request, session=SESSION))
        return self.answers[key]

    async def cancel(self, machine: str, session: str) -> None:
        """Nothing yet: the processes stay for the next diagnosis."""


async def wanted() -> bool:
    return True


async def examined(
    agents: Replayed, book: Book, *inject: str, floors: Mapping[str, float] | None = None
) -> Examination:
    profiles = dict.fromkeys(NODES, Profile(floors=floors or {}))
    faults = read_injections(inject, {node: node for node in NODES})
    machines, run = dict.fromkeys(NODES, "m-1"), f"dg-2-{'-'.join(inject)}"
    subject = Subject(run, NODES, machines, injections=faults, thorough=True, profiles=profiles)
    return await Procedure(agents, book, LENIENT, SystemClock(), lambda: 0.0).run(subject, wanted)


def told(examination: Examination, node: str) -> str:
    finding = examination.finding(node)
    return "; ".join((*finding.problems, *finding.doubts))


FAULTS = [
    ("slow-device:n-2:cpu-{cpu}:0.85", "n-2", "red", "cpu-{cpu}: multiplication is"),
    ("corrupt-gemm:n-3:cpu-{cpu}", "n-3", "red", "CPU {cpu} computed wrong"),
    ("missing-device:n-1:cpu-{cpu}", "n-1", "red", "CPU {cpu} did not finish"),
    ("read-only:n-2:/data", "n-2", "amber", "/data cannot be written"),
    ("clock-skew:n-2:2", "n-2", "amber", "its clock is off by"),
]
STAGES = {
    *("multiplication", "bf16 multiplication", "fp32 multiplication", "memory bandwidth"),
    *("all-reduce of 3 nodes over gloo", "all-to-all of 3 nodes over gloo"),
}


async def test_every_stage_gives_figures_and_each_fault_is_found_and_named(tmp_path: Path) -> None:
    agents, book = Replayed(RealAgents(tmp_path)), Book()
    sound = await examined(agents, book)
    assert "red" not in {sound.finding(node).verdict for node in NODES}
    assert {sound.about(node)["transport"] for node in NODES} == {"gloo"}
    assert {figure.name for figure in sound.all_figures("n-1")} >= STAGES
    for _ in range(6):
        remember(book, sound, NODES)
    cpu = agents.readings["n-1"].measurement.cpus[0]
    for fault, node, verdict, words in FAULTS:
        examination = await examined(agents, book, fault.format(cpu=cpu))
        assert (fault, examination.finding(node).verdict) == (fault, verdict)
        assert words.format(cpu=cpu) in told(examination, node)
    slowest = min((pair for node in NODES for pair in sound.pairs(node)), key=lambda pair: pair.bandwidth_mb_s or 0)
    floors = {"pairMbS": 0.8 * (slowest.bandwidth_mb_s or 0)}
    examination = await examined(agents, book, f"slow-link:{slowest.first}-{slowest.second}:0.6", floors=floors)
    assert f"the link to {slowest.second} is red" in told(examination, slowest.first)
    await agents.machine.cancel("m-1", SESSION)
