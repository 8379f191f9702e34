"""The index of single replicas answers as `fit` does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import RoleAsk
from services.scheduler.domain.planning import singles
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.singles import Singles
from tests.support.cluster import POOLS, clusters, columns, gang, requests

asked = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["public", "team"])), max_size=40)


@given(clusters, st.lists(requests, min_size=3, max_size=3), asked)
def test_it_names_the_row_that_fit_would_take_whatever_was_taken_before(cluster, shapes, turns):
    free = columns(cluster, POOLS)
    index = Singles(free)
    for number, pool in turns:
        role = RoleAsk("worker", 1, pool, shapes[number])
        places, tightest = fit(gang(role), free), index.of(pool, role.request)
        if tightest is not None:
            assert tightest.first() == (places[0].rows[0] if places else None)
        if places:
            free.take(role.request, np.array(places[0].rows), np.array([1]))
            index.touch(places[0].rows)


def test_a_shape_is_indexed_only_once_it_is_asked_for_often():
    free = columns(())
    index, shape = Singles(free), ("public", gang().roles[0].request)
    assert [index.of(*shape) is None for _ in range(singles._WORTH_IT)] == [True] * (singles._WORTH_IT - 1) + [False]
