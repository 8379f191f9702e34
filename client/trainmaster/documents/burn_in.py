"""What the first steps of an attempt say of its ranks, as the job document and the event `burnin.judged` have it."""

from __future__ import annotations

from dataclasses import dataclass

from trainmaster.decoding import Fields


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that held the others up; `node` is its node's name, and `why` has the figures."""

    rank: int
    replica: str
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class BurnIn:
    """The ranks that stood out; `message` says why nothing could be compared, where that is so."""

    source: str
    ranks: int
    last_step: int
    suspects: tuple[SlowRank, ...]
    message: str

    @classmethod
    def of(cls, fields: Fields) -> BurnIn:
        """The verdict that a job document or an event describes."""
        return cls(
            source=fields.text("source"),
            ranks=fields.integer("ranks"),
            last_step=fields.integer("lastStep"),
            suspects=tuple(_slow(each) for each in fields.each("suspects")),
            message=fields.text("message"),
        )


def _slow(fields: Fields) -> SlowRank:
    return SlowRank(
        rank=fields.integer("rank"),
        replica=f"{fields.text('role')}-{fields.integer('index')}",
        node=fields.text("nodeName") or fields.text("node"),
        why=fields.text("why"),
    )
