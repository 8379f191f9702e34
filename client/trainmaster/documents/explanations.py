"""Why a job waits, as `/v1/queue/{job}` says, or what became of it, as `/v1/incidents/stories/{job}` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class Blocker:
    """One resource that a waiting job lacks; amounts are millicores, bytes or counts, as the resource has it."""

    role: str
    resource: str
    needed: int
    available: int
    total: int
    detail: str

    @classmethod
    def of(cls, fields: Fields) -> Blocker:
        """One entry of an explanation's blockers."""
        needed, available, total = (fields.integer(name) for name in ("needed", "available", "total"))
        return cls(fields.text("role"), fields.text("resource"), needed, available, total, fields.text("detail"))


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds some of what another lacks, and until when at the latest; amounts as in `Blocker`."""

    job: str
    resource: str
    pool: str
    amount: int
    ends_by: datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change that starts the job now, and what to write behind each `--set` of `rerun` for it."""

    text: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running, and what would help; of one that has ended its story."""

    job: str
    state: str
    position: int | None
    summary: str
    blockers: tuple[Blocker, ...]
    suggestions: tuple[str, ...]
    holders: tuple[Holder, ...]
    held_by_others: tuple[Holder, ...]
    changes: tuple[Change, ...]
    expected_start_at: datetime | None
    why_there: str
    document: Document
    story: tuple[str, ...] = ()
    never_fits: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Document) -> Explanation:
        """The explanation that `/v1/queue/{job}` gives."""
        fields = Fields.of(document)
        return cls(
            job=fields.text("job"),
            state=fields.text("state"),
            position=fields.optional_integer("position"),
            summary=fields.text("summary"),
            blockers=tuple(map(Blocker.of, fields.each("blockers"))),
            suggestions=fields.texts("suggestions"),
            holders=tuple(holder for held in fields.each("held") for holder in _holders(held)),
            held_by_others=tuple(_others(held) for held in fields.each("held") if held.integer("byOthers")),
            changes=tuple(Change(one.text("text"), one.texts("settings")) for one in fields.each("changes")),
            expected_start_at=fields.time("expectedStartAt"),
            why_there=fields.fields("placement").text("why"),
            document=document,
            story=fields.texts("story"),
            never_fits=fields.flag("neverFits"),
            warnings=fields.texts("warnings"),
        )


def _holders(held: Fields) -> Iterator[Holder]:
    for one in held.each("by"):
        amount, ends_by = one.integer("amount"), one.time("endsBy")
        yield Holder(one.text("job"), held.text("resource"), held.text("pool"), amount, ends_by)


def _others(held: Fields) -> Holder:
    return Holder("", held.text("resource"), held.text("pool"), held.integer("byOthers"), None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would become of a job that is not submitted; `explanation` says what it would wait for.

    `diagnosis` says how long its nodes would be tested first, where they would be, and `gpus` how many GPUs of each it
    would get.
    """

    starts: bool
    placement: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...]
    price_per_hour: str
    explanation: Explanation
    differences: tuple[str, ...]
    document: Document
    cluster: str = ""
    diagnosis: str = ""

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs that the job would get of each of its nodes."""
        counts: Counter[str] = Counter()
        for role in Fields.of(self.document).each("placement"):
            for node in role.each("nodes"):
                counts[node.text("node")] += node.integer("replicas") * role.integer("gpus")
        return dict(counts)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """What its roles are made by."""
        types = (role.text("instanceType") for role in Fields.of(self.document).each("placement"))
        return tuple(dict.fromkeys(name for name in types if name))

    @classmethod
    def of(cls, document: Document) -> Plan:
        """The plan that `/v1/plans` gives; each role of its placement is (role, pool, nodes with their replicas)."""
        fields = Fields.of(document)
        return cls(
            starts=fields.flag("starts"),
            placement=tuple(_role(role) for role in fields.each("placement")),
            price_per_hour=fields.text("pricePerHour"),
            explanation=Explanation.of({**document, "placement": None}),
            differences=fields.texts("differences"),
            document=document,
            cluster=fields.text("cluster"),
        )


def _role(role: Fields) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    nodes = tuple((node.text("node"), node.integer("replicas")) for node in role.each("nodes"))
    return role.text("role"), role.text("pool"), nodes
