"""Ids: shape, uniqueness, and that parts are kept apart."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from shared.ids import digest, gang_id, hashed_id, host_name, is_job_id, name_token, new_job_id, replica_id

names = st.text(max_size=40).filter(lambda text: "\0" not in text)


def test_a_fresh_job_id_has_the_shape_and_is_another_each_time() -> None:
    ids = {new_job_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_job_id(job) and re.fullmatch(r"tj-[a-z2-7]{12}", job) for job in ids)


@given(names, names)
def test_hashed_ids_are_tokens_of_the_bus_and_the_same_for_the_same_parts(owner: str, name: str) -> None:
    made = hashed_id("d", owner, name)
    assert made == hashed_id("d", owner, name)
    assert re.fullmatch(r"d-[a-z2-7]{12}", made)


@given(names, names, names, names)
def test_different_parts_never_share_a_digest(a: str, b: str, c: str, d: str) -> None:
    assert (digest(a, b) == digest(c, d)) == ((a, b) == (c, d))
    assert (name_token(a, b) == name_token(c, d)) == ((a, b) == (c, d))


replicas = st.tuples(
    st.integers(1, 9999),
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True),
    st.integers(0, 99_999),
)


@given(replicas, replicas)
def test_no_two_replicas_share_a_name_and_every_name_is_a_label(one: tuple[int, str, int], other: tuple[int, str, int]):
    job = new_job_id()
    assert (replica_id(job, *one) == replica_id(job, *other)) == (one == other)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", replica_id(job, *one))


def test_names_nest_as_documented() -> None:
    assert gang_id("tj-a", 2) == "tj-a-2"
    assert replica_id("tj-a", 2, "worker", 3) == "tj-a-2-worker-3"
    assert host_name("tj-a", 2, "worker", 3) == "tj-a-2-worker-3.tj-a-2"
