"""Which project's gangs live where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.kubernetes.namespaces import Namespaces, fitting


def test_all_projects_share_a_namespace_unless_each_has_its_own():
    assert Namespaces("jobs").of("vision") == "jobs"
    assert Namespaces("jobs", "tm-").of("vision") == "tm-vision"


@given(names=st.lists(st.text(max_size=80), unique=True, min_size=2, max_size=6))
def test_no_two_projects_share_one_and_every_name_is_a_label(names):
    found = [Namespaces(prefix="trainmaster-").of(name) for name in names]
    assert len(set(found)) == len(found)
    assert all(len(each) <= 63 and each.isascii() and each.replace("-", "").isalnum() for each in found)


def test_a_name_that_looks_like_a_hashed_one_is_hashed_itself():
    hashed = fitting("Vision", 63)
    assert fitting(hashed, 63) != hashed
