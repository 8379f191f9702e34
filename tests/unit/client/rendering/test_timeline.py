from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.job_documents import event_document
from trainmaster.documents import JobEvent
from trainmaster.rendering.timeline import sentence, timeline


def told(name: str, /, **data: Any) -> str:
    return sentence(JobEvent.of(event_document(name, 0, 1, **data), 1))


def change(index: int, state: str, **ended: Any) -> dict[str, Any]:
    return {"role": "worker", "index": index, "state": state, "at": "2026-01-02T12:00:00Z", "exit": ended or None}


@pytest.mark.parametrize(
    ("event", "data", "words"),
    [
        (
            "job.submitted",
            {"name": "m", "priority": 7, "spec": {"roles": [{"replicas": 2, "instanceType": "cpu"}]}},
            "m: 2 x worker of cpu, priority 7",
        ),
        (
            "job.placed",
            {"roles": [{"role": "worker", "nodes": ["a", "b"], "nodeOf": [0, 0, 1]}]},
            "worker on a (2), b",
        ),
        (
            "job.placed",
            {"roles": [{"role": "worker", "nodes": ["n-1"], "nodeNames": ["a"], "nodeOf": [0]}], "diagnosing": True},
            "worker on a; the nodes are checked first",
        ),
        (
            "placement.changed",
            {"left": ["n-2"], "taken": ["n-3"], "names": {"n-2": "b", "n-3": "c"}, "reason": "b: slow"},
            "c instead of b; the new nodes are checked: b: slow",
        ),
        ("job.started", {}, "every replica runs"),
        ("replicas.changed", {"changes": [change(0, "started"), change(1, "started")]}, "worker-0, worker-1 started"),
        (
            "replicas.changed",
            {"changes": [change(0, "started"), change(1, "exited", code=137, outOfMemory="certain")]},
            "worker-0 started; worker-1 exited 137 (out of memory: certain)",
        ),
        ("replicas.changed", {"changes": [change(0, "exited", signal=9)]}, "worker-0 exited SIGKILL"),
        ("replicas.changed", {"changes": [change(0, "exited", cause="lost")]}, "worker-0 exited lost"),
        (
            "replicas.changed",
            {"changes": [change(index, "started") for index in range(100)]},
            "worker-0, worker-1, worker-2, worker-3, worker-4, worker-5 and 94 more started",
        ),
        (
            "attempt.ended",
            {"reason": "failed", "firstFailure": {"role": "worker", "index": 1}, "exit": {"code": 2}},
            "failed; worker-1 exited 2 first",
        ),
        ("attempt.ended", {"reason": "max-run-time", "message": "ran 48h"}, "max-run-time; ran 48h"),
        ("retry.decided", {"retry": False, "reason": "exit code 2"}, "no retry: exit code 2"),
        ("retry.decided", {"retry": True, "reason": "SIGKILL", "budgetLeft": 2}, "retry: SIGKILL, 2 left"),
        ("stop.requested", {"by": "ada", "reason": "enough"}, "by ada: enough"),
        ("job.failed", {"reason": "failed", "message": "worker-1 exited 2"}, "worker-1 exited 2"),
        ("job.failed", {"reason": "start-timeout"}, "start-timeout"),
        ("job.deleted", {"by": "ada"}, "by ada; the name is free"),
        ("diagnosis.requested", {"nodes": ["n-1", "n-2"], "names": {"n-1": "vm-1"}}, "of vm-1, n-2"),
        ("diagnosis.finished", {"passed": False, "badNodes": ["a"], "message": "vm-1: slow"}, "failed: vm-1: slow"),
        ("diagnosis.finished", {"passed": False, "badNodes": ["a"]}, "failed: a"),
        (
            "diagnosis.finished",
            {"passed": True, "untestedNodes": ["a"], "message": "vm-1 was not tested: a pod came"},
            "no node failed; vm-1 was not tested: a pod came",
        ),
        (
            "retry.decided",
            {"retry": True, "reason": "r", "line": "boom", "budgetLeft": 1, "notBefore": "2026-01-02T12:00:05.000Z"},
            "retry: r: boom, 1 left, not before 12:00:05.000",
        ),
        ("logs.removed", {"reason": "age", "bytes": 2048}, "2 KiB of logs were removed: they were old"),
        ("incident.raised", {"rule": "oom", "line": "killed"}, "rule oom matched: killed"),
        (
            "incident.raised",
            {"rule": "hang", "line": "silent", "action": "stop"},
            "rule hang matched: silent; the attempt is stopped",
        ),
        ("steps.measured", {"source": "hook", "ranks": [{"rank": 0}, {"rank": 1}]}, "of 2 ranks"),
        (
            "burnin.judged",
            {"source": "hook", "ranks": 4, "lastStep": 130, "suspects": [{"rank": 2}]},
            "4 ranks up to step 130, by the hook: rank 2 held the others up",
        ),
        (
            "burnin.judged",
            {"source": "log", "ranks": 3, "lastStep": 90, "suspects": []},
            "3 ranks up to step 90, by lines of the logs: none stands out",
        ),
        ("novelty.happened", {"x": 1}, ""),
    ],
)
def test_every_event_is_told_in_words(event: str, data: dict[str, Any], words: str) -> None:
    assert told(event, **data) == words


def test_times_count_from_the_first_event(shown: Callable[..., list[str]]) -> None:
    events = [JobEvent.of(event_document("job.submitted", 1)), JobEvent.of(event_document("novelty.happened", 3.25))]
    _, first, second = shown(timeline(events))
    assert first.split()[:4] == ["12:00:01.000", "+0.0s", "1", "submitted"]
    assert second.split() == ["12:00:03.250", "+2.2s", "1", "novelty.happened", "-"]


def test_no_events_are_an_empty_table(shown: Callable[..., list[str]]) -> None:
    assert len(shown(timeline([]))) == 1
