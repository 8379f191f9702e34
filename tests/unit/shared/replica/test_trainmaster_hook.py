"""The hook tells a rank's own part of a step from its waiting, and never stands in the way of the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.logs.domain.steps import HookLine, hook_lines
from shared.replica import trainmaster_hook as hook
from shared.replica.trainmaster_hook import WARM_UP_STEPS, WINDOW_STEPS, WINDOWS, watch_steps

STEPS = WARM_UP_STEPS + WINDOW_STEPS * WINDOWS


class Clock:
    """Time that goes on only where a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    monotonic = perf_counter


@dataclass
class Handle:
    remove: Callable[[], None]


@dataclass
class Parameter:
    requires_grad: bool = True
    is_cuda: bool = False
    hooks: list[Callable[[Any], None]] = field(default_factory=list)

    def register_post_accumulate_grad_hook(self, call: Callable[[Any], None]) -> Handle:
        self.hooks.append(call)
        return Handle(lambda: self.hooks.remove(call))


class Optimizer:
    """What the hook needs of an optimizer."""

    def __init__(self, *parameters: Any) -> None:
        self.param_groups = [{"params": list(parameters)}]
        self.before: list[Callable[..., None]] = []
        self.after: list[Callable[..., None]] = []

    def register_step_pre_hook(self, call: Callable[..., None]) -> Handle:
        self.before.append(call)
        return Handle(lambda: self.before.remove(call))

    def register_step_post_hook(self, call: Callable[..., None]) -> Handle:
        self.after.append(call)
        return Handle(lambda: self.after.remove(call))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(hook, "time", made)
    monkeypatch.setenv("TM_JOB_ID", "tj-a")
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    return made


class Training:
    """A model of two parameters whose steps take as long as a test wants."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.parameters = [Parameter(), Parameter(), Parameter(requires_grad=False)]
        self.optimizer = Optimizer(*self.parameters)

    def step(self, own_s: float, wait_s: float = 0.0) -> None:
        for parameter in self.parameters:
            self.clock.now_s += own_s / len(self.parameters)
            for call in parameter.hooks:
                call(parameter)
        self.clock.now_s += wait_s
        for call in self.optimizer.before:
            call(self.optimizer, (), {})
        for call in self.optimizer.after:
            call(self.optimizer, (), {})


def printed(capsys: pytest.CaptureFixture[str]) -> list[HookLine]:
    return list(hook_lines(capsys.readouterr().out.encode()))


def test_each_window_of_steps_is_a_line_with_the_middle_of_its_steps(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    training = Training(clock)
    watch_steps(training.optimizer)
    for step in range(STEPS):
        training.step(own_s=5.0 if step % WINDOW_STEPS == 0 else 0.03, wait_s=0.004)
    lines = printed(capsys)
    assert [line.last_step for line in lines] == list(range(20, STEPS + 1, WINDOW_STEPS))
    assert [line.left for line in lines] == list(reversed(range(WINDOWS)))
    assert {(line.rank, line.world) for line in lines} == {(2, 4)}
    # The last of three parameters has no gradient, so what comes behind the second counts as waiting.
    assert {(line.compute_ms, line.wait_ms, line.data_ms) for line in lines} == {(20.0, 14.0, 0.0)}


def test_waiting_for_the_next_batch_is_told_apart(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    def slow_batches() -> Iterator[int]:
        for number in range(STEPS):
            clock.now_s += 0.25
            yield number

    training = Training(clock)
    batches = watch_steps(training.optimizer, slow_batches())
    assert [training.step(own_s=0.03) or number for number in batches] == list(range(STEPS))
    assert {(line.compute_ms, line.data_ms) for line in printed(capsys)} == {(270.0, 250.0)}


def test_batches_are_as_they_were_otherwise(clock: Clock) -> None:
    class Loader(list[int]):
        batch_size = 32

    batches = watch_steps(Training(clock).optimizer, Loader([1, 2]))
    assert (len(batches), batches.batch_size, list(batches), list(batches)) == (2, 32, [1, 2], [1, 2])


def test_after_the_last_window_it_is_out_of_the_way(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(clock)
    watch_steps(training.optimizer)
    watch_steps(training.optimizer)
    assert [len(parameter.hooks) for parameter in training.parameters] == [1, 1, 0]
    for _ in range(2 * STEPS):
        training.step(own_s=0.01)
    assert [parameter.hooks for parameter in training.parameters] == [[], [], []]
    assert training.optimizer.before == []
    assert len(printed(capsys)) == WINDOWS


def test_of_steps_that_take_minutes_it_does_not_tell_all(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(clock)
    watch_steps(training.optimizer)
    for _ in range(STEPS):
        training.step(own_s=60)
    assert [line.left for line in printed(capsys)] == [11, 10]


def test_outside_of_the_platform_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TM_JOB_ID", raising=False)
    optimizer = Optimizer(Parameter())
    assert watch_steps(optimizer, [1]) == [1]
    assert (optimizer.before, optimizer.after) == ([], [])


@pytest.mark.parametrize("optimizer", [object(), Optimizer(object())], ids=["no optimizer", "an old PyTorch"])
def test_what_cannot_be_watched_trains_on(optimizer: object, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(watch_steps(optimizer, [1, 2])) == [1, 2]
    assert "steps are not watched: AttributeError" in capsys.readouterr().err


def test_an_error_within_ends_the_watching_and_says_so_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(clock)
    watch_steps(training.optimizer)
    training.clock.monotonic = None  # type: ignore[assignment,method-assign]
    for _ in range(30):
        training.step(own_s=0.01)
    assert capsys.readouterr().err.count("trainmaster_hook: steps are not watched") == 1
    assert training.optimizer.before == []


class Event:
    """An event of a GPU's stream, which the device passes later."""

    passed_until_s = 0.0

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.at_s = 0.0

    def record(self) -> None:
        self.at_s = self.clock.now_s

    def query(self) -> bool:
        return self.at_s <= Event.passed_until_s

    def elapsed_time(self, other: Event) -> float:
        assert other.query(), "the training would have waited for the device"
        return 1000 * (other.at_s - self.at_s)


def test_on_a_gpu_a_window_is_told_once_the_device_has_passed_it(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(clock)
    training.parameters[0].is_cuda = True

    class Cuda:
        @staticmethod
        def Event(*, enable_timing: bool) -> Event:  # noqa: N802
            return Event(clock)

    class Torch:
        cuda = Cuda

    monkeypatch.setitem(hook.sys.modules, "torch", Torch)
    watch_steps(training.optimizer)
    for _ in range(25):
        training.step(own_s=0.03, wait_s=0.01)
    assert printed(capsys) == []
    Event.passed_until_s = clock.now_s
    training.step(own_s=0.03, wait_s=0.01)
    (line,) = printed(capsys)
    assert (line.last_step, line.compute_ms, line.wait_ms) == (20, 20.0, 20.0)
