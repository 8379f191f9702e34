from __future__ import annotations

from trainmaster.documents import Curve, ScalarPoint
from trainmaster.rendering.curves import curves


def curve(*values: float, tag: str = "loss") -> Curve:
    return Curve(tag, tuple(ScalarPoint(step, value) for step, value in enumerate(values)), {})


def test_a_curve_has_its_size_and_its_tag_above() -> None:
    (text,) = curves([curve(3, 2, 1)], width=60, height=10)
    lines = text.splitlines()
    assert lines[0].strip() == "loss"
    assert len(lines) == 11
    assert max(map(len, lines[:-1])) <= 60
    assert lines[-1] == "  3 points, first 3, lowest 1, highest 3, last 1 at step 2"


def test_there_are_no_escape_sequences_in_it() -> None:
    (text,) = curves([curve(1, 2, tag="a\x1b[31m")])
    assert "\x1b" not in text


def test_values_that_are_not_finite_are_left_out_and_counted() -> None:
    (text,) = curves([curve(1, float("nan"), float("inf"), 2)])
    assert "2 points, 2 not finite" in text


def test_a_curve_without_points_is_its_tag() -> None:
    assert list(curves([curve()])) == ["loss\n  no point to draw"]


def test_each_curve_is_drawn_by_itself() -> None:
    first, second = curves([curve(1, 2), curve(5, 6, tag="acc")])
    assert "acc" not in first
    assert "loss" not in second
    assert list(curves([curve(1, 2)])) == [first]


def test_a_curve_of_one_value_and_a_level_one_are_drawn() -> None:
    assert all("┤" in text for text in curves([curve(1), curve(2, 2, 2)]))
