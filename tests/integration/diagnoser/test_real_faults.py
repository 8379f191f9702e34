"""The whole procedure with the real probe and the real workers of this machine: faults are found, and none without.

Figures are measured once, by a diagnosis of three nodes that are shares of this machine; each fault is then pretended
on what was measured, as `--inject` does, and judged beside what the same machine gave before. What shares of a machine
send each other depends on what else runs there, so bandwidths are those of a quiet network.
"""

from __future__ import annotations

import random
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
    """Asks the machine the first time, and gives the same answer to the same question again.

    Bandwidths of pairs are drawn, and differ by what two measurements of a sound network do.
    """

    machine: RealAgents
    readings: dict[str, Reading] = field(default_factory=dict)
    answers: dict[tuple[object, ...], TestAnswer] = field(default_factory=dict)
    dice: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311  # noise, no secret

    async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
        if not self.readings:
            self.readings = await self.machine.probe(machine, NODES, places)
        return {node: self.readings[node] for node in nodes}

    async def test(self, machine: str, request: TestRequest) -> TestAnswer:
        key = (request.node, request.test, tuple(peer.node for peer in request.peers))
        if key not in self.answers:
            self.answers[key] = await self.machine.test(machine, replace(request, session=SESSION))
        answer = self.answers[key]
        drawn = {"bandwidthMbS": self.dice.gauss(2000, 60)} if request.test == "exchange" else {}
        return replace(answer, figures={**answer.figures, **drawn})

    async def cancel(self, machine: str, session: str) -> None:
        """Nothing yet: the processes stay for the next diagnosis."""


async def wanted() -> bool:
    return True


async def examined(agents: Replayed, book: Book, *inject: str) -> Examination:
    faults = read_injections(inject, {node: node for node in NODES})
    machines, run = dict.fromkeys(NODES, "m-1"), f"dg-2-{'-'.join(inject)}"
    subject = Subject(run, NODES, machines, injections=faults, thorough=True)
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
    examination = await examined(agents, book, "slow-link:n-1-n-3:0.6")
    assert "the link to n-3 is red" in told(examination, "n-1")
    assert not [node for node in NODES if examination.finding(node).problems]
    await agents.machine.cancel("m-1", SESSION)
