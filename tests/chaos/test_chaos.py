"""Jobs of every fate under a storm of kills and halts: each ends once and right, and nothing is left of any.

`make chaos` runs the long storm. CHAOS_SEED, CHAOS_JOBS and CHAOS_SECONDS choose another; a failure prints the seed,
which gives the same storm again, and the trace of what was done when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos import accounts, witness
from tests.chaos.fates import FATES, REPLACED, Fate
from tests.chaos.storm import Storm, plan
from tests.support.platform import ENDED, Platform, await_

SEED = int(os.environ.get("CHAOS_SEED", "1"))
JOBS = int(os.environ.get("CHAOS_JOBS", "30"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", "60"))
CALM_S = 180 + SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(3 * SECONDS + 600)]


def test_a_seed_gives_the_same_storm_again() -> None:
    assert plan(SEED, JOBS, SECONDS) == plan(SEED, JOBS, SECONDS)
    assert plan(SEED, JOBS, SECONDS) != plan(SEED + 1, JOBS, SECONDS)
    drawn = {errand.fate.name for errand in plan(SEED, len(FATES), SECONDS).errands}
    assert drawn == {fate.name for fate in FATES}
    struck = {(blow.victim, bool(blow.halt_s), bool(blow.slow_s)) for blow in plan(SEED, JOBS, 100).blows}
    assert len(struck) == 6


@pytest.mark.skipif(bool(REPLACED), reason=REPLACED)
def test_one_fate_is_to_be_killed_for_its_memory() -> None:
    assert [fate.attempts for fate in FATES if fate.out_of_memory] == [2]


def test_every_job_ends_once_and_right_whatever_is_killed(storm_platform: Platform) -> None:
    storm = Storm(storm_platform, plan(SEED, JOBS, SECONDS))
    try:
        storm.rage()
        _await_calm(storm)
        complaints = list(_complaints(storm))
    except BaseException:
        print(_report(storm, []))  # noqa: T201  # beside whatever went wrong
        raise
    assert not complaints, _report(storm, complaints)


def _await_calm(storm: Storm) -> None:
    await_("every job has ended", lambda: _all_ended(storm), CALM_S)
    deadline = time.monotonic() + 60
    while witness.complaints_about_machine(storm.platform, storm.ids) and time.monotonic() < deadline:
        time.sleep(0.5)


def _all_ended(storm: Storm) -> bool:
    time.sleep(0.5)
    with storm.platform.http as http:
        states = [http.get(f"/v1/jobs/{job}").json()["status"]["state"] for job in storm.ids.values()]
    return all(state in ENDED for state in states)


def _complaints(storm: Storm) -> Iterator[str]:
    fates = {errand.job: errand.fate for errand in storm.plan.errands}
    stories = witness.read_stories(storm.platform.home)
    if set(stories) != set(storm.ids.values()):
        yield f"the stream has other jobs than were submitted: {set(stories) ^ set(storm.ids.values())}"
    if not witness.archived_jobs(storm.platform.home) & set(storm.ids.values()):
        yield "no job was archived"
    for name, job in storm.ids.items():
        yield from _complaints_about(storm.platform, name, job, fates[name], stories[job])
    yield from accounts.complaints_about_usage(storm.platform, storm.ids)
    yield from witness.complaints_about_machine(storm.platform, storm.ids)


def _complaints_about(platform: Platform, name: str, job: str, fate: Fate, story: witness.Story) -> Iterator[str]:
    runs = witness.runs_of(platform.scratch, name)
    yield from witness.complaints_about_story(name, fate, story)
    yield from witness.complaints_about_memory(name, fate, story)
    yield from witness.complaints_about_runs(name, fate, runs)
    yield from witness.complaints_about_logs(platform, name, job, fate, runs)


def _report(storm: Storm, complaints: list[str]) -> str:
    again = f"CHAOS_SEED={storm.plan.seed} CHAOS_JOBS={JOBS} CHAOS_SECONDS={SECONDS:g} gives this storm again"
    jobs = [f"{job}  {name}" for name, job in storm.ids.items()]
    return "\n".join([*complaints, "", again, REPLACED, "", *storm.trace, "", *jobs])


class TestWitness:
    """The witness itself would notice."""

    FATE = Fate("x", "true", attempts=2)
    GOOD = (
        ("job.submitted", 1), ("job.placed", 1), ("job.started", 1), ("attempt.ended", 1), ("retry.decided", 1),
        ("job.queued", 2), ("job.placed", 2), ("job.started", 2), ("attempt.ended", 2), ("job.succeeded", 2),
    )  # fmt: skip

    def told(self, *states: tuple[str, int]) -> list[str]:
        return list(witness.complaints_about_story("x", self.FATE, witness.Story(list(states))))

    def test_a_right_story_has_no_complaint(self) -> None:
        assert self.told(*self.GOOD) == []

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda good: good[:-1],
            lambda good: (*good, good[-1]),
            lambda good: (*good, ("job.started", 2)),
            lambda good: (*good[:-1], ("job.failed", 2)),
            lambda good: good[:5] + good[9:],
            lambda good: good[:2] + good[1:],
            lambda good: good[:3] + good[4:],
        ],
    )
    def test_a_wrong_story_has_one(self, spoil: Callable[..., tuple[tuple[str, int], ...]]) -> None:
        assert self.told(*spoil(self.GOOD))

    def test_attempts_that_overlap_or_run_twice_or_not_at_all_are_noticed(self, tmp_path: Path) -> None:
        first, second = tmp_path / "x.1.0.times", tmp_path / "x.2.0.times"

        def found() -> list[str]:
            return list(witness.complaints_about_runs("x", self.FATE, witness.runs_of(tmp_path, "x")))

        first.write_text("start 10\nend 20\n")
        second.write_text("start 21\nend 30\n")
        assert found() == []
        second.write_text("start 19\nend 30\n")
        assert found() == ["x attempt 2 began while attempt 1 was running"]
        second.write_text("start 21\nend 30\nstart 22\n")
        assert found() == ["x attempt 2 replica 0 was started 2 times"]
        second.write_text("start 21\n")
        assert found() == ["x attempt 2 replica 0 wrote 0 ends"]
        second.unlink()
        assert found() == ["x ran as [(1, 0)] (attempt, rank) instead of [(1, 0), (2, 0)]"]

    @pytest.mark.parametrize(
        ("told", "complaints"),
        [
            ([("an end", "certain"), ("a decision", "certain")], 0),
            ([("an end", "certain"), ("a decision", "none")], 1),
            ([("an end", "suspected")], 1),
            ([], 1),
        ],
    )
    def test_a_kill_for_memory_that_is_not_told_is_noticed(self, told: list[tuple[str, str]], complaints: int) -> None:
        fate = Fate("x", "true", out_of_memory=True)
        assert len(list(witness.complaints_about_memory("x", fate, witness.Story([], told)))) == complaints

    def test_a_kill_for_memory_that_was_none_is_noticed(self) -> None:
        story = witness.Story([], [("an end", "certain")])
        assert list(witness.complaints_about_memory("x", self.FATE, story))
