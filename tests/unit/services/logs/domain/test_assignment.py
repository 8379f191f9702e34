"""Instances share the partitions: each partition is one instance's, and no instance has two more than another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.assignment import share_of

names = st.sets(st.sampled_from("abcdefghij"), min_size=1)


@given(names, st.integers(1, 32))
def test_every_partition_is_exactly_one_instances(instances: set[str], partitions: int):
    shares = [share_of(name, list(instances), partitions) for name in instances]
    assert sorted(number for share in shares for number in share) == list(range(partitions))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_an_instance_that_does_not_see_itself_counts_all_the_same():
    assert share_of("a", [], 4) == frozenset(range(4))
    assert share_of("a", ["b"], 4) == {0, 2}
