"""Nodes that may be bad are used where no others will do."""

from __future__ import annotations

from services.scheduler.domain.planning.space import Space
from tests.support.cluster import ask, columns, gang, node

SUSPECT = node("a", cores=4, suspect=True)
SOUND = node("b", cores=8)


def rows(space: Space, replicas: int = 1) -> list[str] | None:
    places = space.place(gang(ask(replicas, cores=4)))
    if places is None:
        return None
    space.take(places)
    layout = space.columns.layout
    return [layout.nodes[row].id for place in places for row in place.rows]


def test_a_gang_goes_to_a_sound_node_though_the_suspect_is_tighter() -> None:
    assert rows(Space(columns((SUSPECT, SOUND)))) == ["n-b"]


def test_a_gang_that_does_not_fit_on_the_others_gets_the_suspect() -> None:
    assert rows(Space(columns((SUSPECT, SOUND))), replicas=3) is not None
    assert rows(Space(columns((SUSPECT,)))) == ["n-a"]


def test_many_small_gangs_fill_the_sound_nodes_first() -> None:
    space = Space(columns((SUSPECT, *(node(f"c{number}", cores=4) for number in range(12)))))
    used = [found for _ in range(13) for found in rows(space) or []]
    assert used[-1] == "n-a"
    assert len(set(used)) == 13
