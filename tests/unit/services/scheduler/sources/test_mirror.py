"""Objects as files and folders: what can be, and what cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.sources.mirror import MirrorError, Progress, plan_of
from services.scheduler.sources.object_store import Found


def found(**sizes: int) -> list[Found]:
    return [Found(path.replace("__", "/"), size, 0) for path, size in sizes.items()]


def test_files_and_the_folders_above_them():
    plan = plan_of(found(a=1, b__c__d=2))
    assert {each.path for each in plan.files} == {"a", "b/c/d"}
    assert plan.folders == ("b", "b/c")
    assert plan.size_bytes == 3


def test_an_empty_object_above_others_is_a_folder():
    plan = plan_of(found(a=0, a__b=1))
    assert [each.path for each in plan.files] == ["a/b"]


def test_a_filled_object_above_others_cannot_be():
    with pytest.raises(MirrorError, match="'a' is an object, and others lie below it"):
        plan_of(found(a=1, a__b=1))


def test_a_name_that_no_file_system_takes_is_refused():
    with pytest.raises(MirrorError, match="longer than a file name"):
        plan_of([Found("x" * 256, 1, 0)])


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(NAMES, st.integers(0, 2)))
def test_no_file_is_above_another(sizes: dict[str, int]):
    try:
        plan = plan_of([Found(path, size, 0) for path, size in sizes.items()])
    except MirrorError:
        return
    paths = {each.path for each in plan.files}
    assert not any(other.startswith(path + "/") for path in paths for other in paths)
    assert paths.isdisjoint(plan.folders)
    assert plan.size_bytes == sum(sizes.values())


def test_progress_is_told_in_the_units_of_people():
    progress = Progress("synchronising")
    assert str(progress) == "synchronising data"
    progress.total_bytes = 10 << 30
    progress.advance(int(3.2 * (1 << 30)))
    assert str(progress) == "synchronising 3.2Gi of 10Gi of data"
