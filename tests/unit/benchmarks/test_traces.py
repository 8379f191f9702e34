"""Traces are read by anybody's columns, and what is wrong with one is told by line."""

from __future__ import annotations

import pytest

from benchmarks.traces import TraceError, TraceJob, made_up, perturbed, read


def written(tmp_path, text: str):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_jobs_come_by_submission_and_times_count_from_the_first(tmp_path):
    path = written(tmp_path, "submit,duration,gpus,cpus,memory,user\n130,60,8,96,1.5,ada\n100,30,0,4,2,\n")
    assert read(path) == [TraceJob(0, 30, 0, 4, 2 << 30), TraceJob(30, 60, 8, 96, 3 << 29, "ada")]


def test_dates_and_other_names_of_columns_are_understood(tmp_path):
    times = ("2026-01-31T08:00:00Z", "2026-01-31T09:00:00+01:00", "2026-01-31T08:00:09")
    text = "when,took,cores,ram\n" + "".join(f"{time},60,4,1\n" for time in times)
    names = {"submit": "when", "duration": "took", "cpus": "cores", "memory": "ram"}
    assert [job.submit_s for job in read(written(tmp_path, text), names)] == [0, 0, 9]


def test_jobs_that_ran_for_no_time_are_left_out(tmp_path):
    assert read(written(tmp_path, "submit,duration,cpus,memory\n1,0,1,1\n")) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("submit,cpus,memory\n", "there is no column 'duration'; the header has submit, cpus, memory; give --columns"),
        ("", "there is no column 'submit'; the header has nothing; give --columns"),
        ("submit,duration,cpus,memory\n1,long,1,1\n", "line 2: 'long' in column 'duration' is not a number"),
        ("submit,duration,cpus,memory\n1,1,1,1\n1,1,-1,1\n", "line 3: '-1' in column 'cpus' is not a number from 0 on"),
        ("submit,duration,cpus,memory\nsoon,1,1,1\n", "line 2: 'soon' in column 'submit' is not seconds, or a date"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, text, told):
    with pytest.raises(TraceError, match=r"trace\.csv") as caught:
        read(written(tmp_path, text))
    assert told in str(caught.value)


def test_made_up_jobs_fill_what_is_asked_for_and_come_out_the_same_from_one_seed():
    jobs = made_up(days=5, gpus=2048, load=0.8, seed=3)
    assert jobs == made_up(days=5, gpus=2048, load=0.8, seed=3)
    wanted = 5 * 86_400 * 2048 * 0.8
    assert wanted <= sum(job.gpus * job.duration_s for job in jobs) <= wanted + 1024 * 4 * 86_400
    assert {job.gpus for job in jobs} <= {1 << power for power in range(11)}


def test_perturbed_jobs_are_the_same_ones_a_little_earlier_or_later():
    jobs = made_up(days=1, gpus=64, load=0.5, seed=3)
    moved = perturbed(jobs, 600, seed=1)
    assert sorted(job.duration_s for job in moved) == sorted(job.duration_s for job in jobs)
    assert moved == sorted(moved, key=lambda job: job.submit_s)
