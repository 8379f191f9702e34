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


def test_names_nest_as_documented() -> None:
    assert gang_id("tj-a", 2) == "tj-a-2"
    assert replica_id("tj-a", 2, "worker", 3) == "tj-a-2-worker-3"
    assert host_name("tj-a", 2, "worker", 3) == "tj-a-2-worker-3.tj-a-2"
