"""Other nodes for those that a diagnosis speaks against, while the rest of the gang keeps its place: pure.

Nodes that failed are replaced all or not at all: where the pools have too little free the attempt ends, as its retry
condition has it. Doubtful (amber) ones are replaced as far as there are free nodes that nothing speaks against, at most
a quarter of the gang and at least one; where more than half of a gang is doubtful, the doubt is about the whole and
nobody is. After `REPLACEMENTS_MAX` replacements an attempt has what it has.

The new nodes stay in the smallest domain that the kept ones share (`fit_beside`). A replacement goes before gangs that
wait: its job had its turn already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.placement import nodes_of, role_placements, seats_of
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import Place, fit, fit_beside
from services.scheduler.domain.planning.plan import Start
from services.scheduler.domain.terms import REPLACEMENTS_MAX, Terms
from shared.events import PlacementChanged, Resolved
from shared.jobs import Attempt, Job, JobState

DOUBTFUL_TRIES: Final = 8
_DOUBTFUL_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class Replacement:
    """Who goes, who comes, and where every replica of the gang sits then."""

    left: tuple[str, ...]
    taken: tuple[str, ...]
    seats: tuple[Seat, ...]
    round: int

    def event(self, resolved: Resolved, names: Mapping[str, str], reason: str) -> PlacementChanged:
        """The replacement as it goes on record; `names` are those of all of its nodes."""
        moved = {*self.left, *self.taken}
        return PlacementChanged(
            roles=role_placements(resolved, self.seats, names),
            left=self.left,
            taken=self.taken,
            names={node: name for node, name in names.items() if node in moved},
            round=self.round,
            reason=reason,
        )


def replacement(job: Job, terms: Terms, columns: Columns) -> Replacement | None:
    """What to do about the nodes that the last diagnosis speaks against; None where it is nothing, or cannot be."""
    if not _is_due(job):
        return None
    bad = frozenset(job.attempt.diagnosis.bad_nodes) if job.attempt.diagnosis else frozenset()
    for left in _choices(job.attempt, bad):
        found = _without(job, terms, columns, left, spares_only=not bad)
        if found is not None:
            return found
    return None


def _is_due(job: Job) -> bool:
    """Whether the attempt has an outcome of its diagnosis, and is neither ending nor at its last round."""
    attempt = job.attempt
    told = job.state is JobState.DIAGNOSING and attempt.diagnosis is not None and attempt.preemption is None
    is_ending = any(replica.exit for replica in attempt.replicas.values())
    return told and not is_ending and len(attempt.replaced) < REPLACEMENTS_MAX


def _choices(attempt: Attempt, bad: frozenset[str]) -> Iterator[frozenset[str]]:
    """Who may go, the best first: with the nodes that failed as many doubtful ones as there is room for."""
    doubtful = _doubtful(attempt)
    for count in range(len(doubtful), 0, -1):
        yield bad | frozenset(doubtful[:count])
    if bad:
        yield bad


def _doubtful(attempt: Attempt) -> tuple[str, ...]:
    nodes = nodes_of(attempt)
    doubtful = attempt.diagnosis.doubtful_nodes if attempt.diagnosis else ()
    known = tuple(node for node in doubtful if node in nodes)
    if len(nodes) > 2 and 2 * len(known) > len(nodes):
        return ()
    return known[: min(max(len(nodes) // _DOUBTFUL_SHARE, 1), DOUBTFUL_TRIES)]


def _without(
    job: Job, terms: Terms, columns: Columns, left: Collection[str], *, spares_only: bool
) -> Replacement | None:
    seats = seats_of(job.attempt, terms)
    lost = [seat for seat in seats if seat.node in left]
    kept = [seat for seat in seats if seat.node not in left]
    gang = _missing(terms.gang(job), lost, left)
    survivors = sorted({columns.layout.row_of[seat.node] for seat in kept if seat.node in columns.layout.row_of})
    start = _placed(gang, survivors, columns, spares_only=spares_only)
    if start is None:
        return None
    moved = list(_seated(lost, start.seats))
    return Replacement(
        left=tuple(sorted(left)),
        taken=tuple(sorted({seat.node for seat in moved})),
        seats=(*kept, *moved),
        round=job.attempt.round + 1,
    )


def _missing(gang: Gang, lost: list[Seat], left: Collection[str]) -> Gang:
    """The part of the gang that needs another place."""
    counts = Counter(seat.role for seat in lost)
    roles = tuple(replace(role, replicas=counts[role.name]) for role in gang.roles if counts[role.name])
    return replace(gang, roles=roles, failed_diagnosis=gang.failed_diagnosis | frozenset(left))


def _placed(gang: Gang, survivors: list[int], columns: Columns, *, spares_only: bool) -> Start | None:
    """Where it goes: to suspect nodes only where there are too few others, and not at all for a mere doubt."""
    layout = columns.layout
    suspects = frozenset(layout.nodes[row].id for row in layout.suspects)
    places = _fitted(replace(gang, suspected=gang.suspected | suspects), survivors, columns)
    if places is None and suspects and not spares_only:
        places = _fitted(gang, survivors, columns)
    return Start(gang, places, layout) if places is not None else None


def _fitted(gang: Gang, survivors: list[int], columns: Columns) -> tuple[Place, ...] | None:
    return fit_beside(gang, survivors, columns) if survivors else fit(gang, columns)


def _seated(lost: list[Seat], found: tuple[Seat, ...]) -> Iterator[Seat]:
    """The replicas that lost their seats on the seats that were found, which are numbered anew by role."""
    free: defaultdict[str, list[Seat]] = defaultdict(list)
    for seat in found:
        free[seat.role].append(seat)
    for seat in sorted(lost, key=lambda seat: (seat.role, seat.index)):
        yield replace(free[seat.role].pop(0), index=seat.index)
