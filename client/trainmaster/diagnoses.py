"""What the API offers about diagnoses of nodes: begin one and read reports; those of a job also its owner may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from trainmaster import sse
from trainmaster.decoding import Document, Fields
from trainmaster.documents import Job
from trainmaster.errors import ForbiddenError, InputError, NotFoundError, UnavailableError, UnreachableError
from trainmaster.transport import Transport

UNDER_WAY: Final = frozenset({"queued", "running"})
_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class How:
    """How nodes are to be diagnosed: with which pretended faults, by whose profile, at which level of deep tests."""

    inject: Sequence[str] = ()
    instance_type: str = ""
    deep: int = 0
    thorough: bool = True


class DiagnosisCalls:
    """The part of a `Client` that is about diagnoses; nodes are given by their names or ids."""

    def __init__(self, transport: Transport, patience: sse.Patience) -> None:
        self._transport = transport
        self._patience = patience

    def begin(self, nodes: Sequence[str], how: How) -> Document:
        """Have the nodes diagnosed; the answer has the id and how long it will take."""
        wanted: Document = {"nodes": list(nodes), "inject": list(how.inject), "thorough": how.thorough}
        wanted |= {"instanceType": how.instance_type} if how.instance_type else {}
        wanted |= {"deep": how.deep} if how.deep else {}
        return self._transport.document("POST", "/v1/diagnoses", json=wanted)

    def plan(self, gpus: Mapping[str, int], instance_types: Sequence[str]) -> Document:
        """How long the diagnosis of a job would take that gets so many GPUs of each of these nodes."""
        wanted = {"nodes": dict(gpus), "instanceTypes": list(instance_types)}
        return self._transport.document("POST", "/v1/diagnoses/plans", json=wanted)

    def get(self, diagnosis: str) -> Document:
        """The report, as far as it is on record; of a job's attempt the id is `<job>-<attempt>`."""
        return self._transport.document("GET", f"/v1/diagnoses/{quote(diagnosis, safe='')}")

    def cancel(self, diagnosis: str) -> Document:
        """End one that waits or runs; for admins."""
        return self._transport.document("DELETE", f"/v1/diagnoses/{quote(diagnosis, safe='')}")

    def latest(self) -> Document:
        """The latest reports, newest first, without figures."""
        return self._transport.document("GET", "/v1/diagnoses")

    def ledger(self, node: str) -> Document:
        """What the ledger says of a node; for admins."""
        return self._transport.document("GET", f"/v1/diagnoses/nodes/{quote(node, safe='')}")

    def of_attempt(self, job: Job, number: int) -> Document | None:
        """The report of the last round of an attempt's diagnosis; None where there is none that may be read."""
        rounds = next((1 + len(each.replaced) for each in job.attempts if each.number == number and each.diagnosis), 0)
        for last in range(rounds, 0, -1):
            try:
                return self.get(f"{job.id}-{number}" + (f"-r{last}" if last > 1 else ""))
            except (NotFoundError, ForbiddenError):
                continue
        return None

    def wait(self, diagnosis: str) -> Document:
        """The report once the diagnosis has ended, also where the platform is away for a while meanwhile."""
        last_sign = self._patience.clock()
        while True:
            try:
                document = self.get(diagnosis)
                last_sign = self._patience.clock()
            except (UnreachableError, UnavailableError):
                if self._patience.clock() - last_sign > self._patience.total_s:
                    raise
            else:
                if document.get("state") not in UNDER_WAY:
                    return document
            self._patience.pause(_LOOK_S)


def how_long(document: Document) -> str:
    """How long a diagnosis takes, as planned before it begins."""
    fields = Fields.of(document)
    return f"about {fields.number('budgetS'):.0f} s, at most {fields.number('mostS'):.0f} s where there are suspects"


def nodes_of(names: Sequence[str], nodes: Sequence[Document]) -> list[str]:
    """The ids of the nodes that these names of nodes and pools mean; raises InputError."""
    known = [Fields.of(node) for node in nodes]
    found = {name: list(_meant(name, known)) for name in names}
    for name, ids in found.items():
        if not ids:
            raise InputError(f"there is no node and no pool with nodes called {name!r}; see: trainmaster get nodes")
    return list(dict.fromkeys(node for ids in found.values() for node in ids))


def _meant(name: str, nodes: Sequence[Fields]) -> Iterator[str]:
    for node in nodes:
        metadata = node.fields("metadata")
        if name in (metadata.text("id"), metadata.text("name"), *node.fields("status").texts("pools")):
            yield metadata.text("id")
