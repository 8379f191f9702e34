"""Which nodes a pool has, and who is first in the queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import Pool, in_queue_order
from tests.support.cluster import gang, node


class TestPool:
    def test_a_pool_that_selects_nothing_has_every_node_of_its_cluster(self):
        assert Pool("public", "main").has(node("a"))
        assert not Pool("public", "main").has(node("a", cluster="other"))

    def test_one_that_selects_nothing_leaves_dedicated_nodes_to_their_pools(self):
        team = Pool("team", "main", node_names=frozenset({"a"}))
        public = Pool("public", "main", dedicated=(team,))
        assert not public.has(node("a"))
        assert public.has(node("b"))
        assert team.has(node("a"))

    def test_a_pool_selects_nodes_by_name_or_id(self):
        pool = Pool("team", "main", node_names=frozenset({"a", "n-b"}))
        assert [pool.has(node(name)) for name in "abc"] == [True, True, False]

    def test_a_pool_selects_nodes_that_have_all_its_labels(self):
        pool = Pool("team", "main", node_labels={"team": "x", "disk": "fast"})
        assert pool.has(node("a", labels={"team": "x", "disk": "fast", "rack": "1"}))
        assert not pool.has(node("a", labels={"team": "x"}))

    def test_names_and_labels_add_up(self):
        pool = Pool("team", "main", node_names=frozenset({"a"}), node_labels={"team": "x"})
        assert pool.has(node("a"))
        assert pool.has(node("b", labels={"team": "x"}))
        assert not pool.has(node("c"))


class TestQueueOrder:
    def test_higher_priority_comes_first_then_the_earlier_submission(self):
        gangs = [
            gang(job="late", sequence=9),
            gang(job="early", sequence=2),
            gang(job="urgent", sequence=10, priority=9),
        ]
        assert [one.job for one in in_queue_order(gangs)] == ["urgent", "early", "late"]

    @given(st.permutations([gang(job=str(n), sequence=n, priority=1 + n % 3) for n in range(8)]))
    def test_the_order_does_not_depend_on_how_gangs_are_listed(self, gangs):
        assert [one.job for one in in_queue_order(gangs)] == ["2", "5", "1", "4", "7", "0", "3", "6"]
