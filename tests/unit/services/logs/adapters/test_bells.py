"""Bells wake those who took them before the change, all of them, once."""

from __future__ import annotations

from services.logs.adapters.bells import Bells


def test_everybody_who_waits_for_the_job_is_woken():
    bells = Bells()
    first, second, other = bells.bell("tj-a"), bells.bell("tj-a"), bells.bell("tj-b")
    bells.ring("tj-a")
    assert first.is_set()
    assert second.is_set()
    assert not other.is_set()


def test_a_bell_taken_after_the_change_waits_for_the_next():
    bells = Bells()
    bells.bell("tj-a")
    bells.ring("tj-a")
    bells.ring("tj-a")
    assert not bells.bell("tj-a").is_set()
