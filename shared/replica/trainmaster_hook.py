"""Tells Trainmaster how long the first steps of training take on this rank.

Two lines in a training script:

    from trainmaster_hook import watch_steps
    watch_steps(optimizer)                    # or: for batch in watch_steps(optimizer, batches): ...

In data-parallel training all ranks wait for the slowest, so the time of a whole step tells nobody apart. The hook notes
when a step began, when the last gradient was there (from then on the rank can only wait for others), and when the
optimizer began: the first part is the rank's own, the second its waiting. With `batches` the time until the next batch
is there is told apart, too. On a GPU the marks are events of its stream, read later, so nothing is ever waited for.

After `WARM_UP_STEPS` it prints one line for each of `WINDOWS` windows, with the middle of what its steps took, and then
takes itself away; after `LIMIT_S`, too. Outside of Trainmaster, and where PyTorch is older than 2.1, it does nothing.
Whatever goes wrong in here ends the watching and not the training. Only the standard library is needed beside PyTorch,
and annotations are never evaluated, since images may have an old Python.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from statistics import median
from typing import Any

WARM_UP_STEPS = 10
WINDOW_STEPS = 10
WINDOWS = 12
LIMIT_S = 1800.0
_ATTRIBUTE = "_trainmaster_watch"


def watch_steps(optimizer: Any, batches: Iterable[Any] | None = None) -> Any:
    """Watch the first steps of the optimizer; `batches` are given back, and waiting for them is told apart."""
    watch = getattr(optimizer, _ATTRIBUTE, None)
    if watch is None and "TM_JOB_ID" in os.environ:
        watch = _Watch(optimizer)
        with suppress(AttributeError):
            setattr(optimizer, _ATTRIBUTE, watch)
    return batches if batches is None or watch is None else _Batches(watch, batches)


class _CpuMarks:
    """Moments as seconds."""

    def mark(self, _again: Any = None) -> float:
        return time.perf_counter()

    def between_ms(self, start: float, stop: float) -> float:
        return 1000 * (stop - start)

    def is_there(self, _mark: float) -> bool:
        return True


class _GpuMarks:
    """Moments as events of the stream; one that is marked again is moved."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def mark(self, again: Any = None) -> Any:
        event = again or self._event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, start: Any, stop: Any) -> float:
        return float(start.elapsed_time(stop))

    def is_there(self, mark: Any) -> bool:
        return bool(mark.query())


class _Batches:
    """The batches, with the time that each is waited for noted."""

    def __init__(self, watch: _Watch, batches: Iterable[Any]) -> None:
        self._watch = watch
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        iterator = iter(self._batches)
        while True:
            began = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self._watch.data_ms += 1000 * (time.perf_counter() - began)
            yield batch

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # as the batches themselves have one or not

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


class _Watch:
    """The steps of one optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self.data_ms = 0.0
        self._began_s = time.monotonic()
        self._step = 0
        self._told = 0
        self._done = False
        self._last: Any = None
        self._gradient: Any = None
        self._before_step: Any = None
        self._steps: list[tuple[Any, Any, Any, float]] = []
        self._windows: list[tuple[int, list[tuple[Any, Any, Any, float]]]] = []
        self._handles: list[Any] = []
        self._marks: Any = _CpuMarks()
        self._guarded(self._begin, optimizer)

    def _begin(self, optimizer: Any) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]
        if parameters and parameters[0].is_cuda:
            self._marks = _GpuMarks(sys.modules["torch"].cuda.Event)
        for each in parameters:
            self._handles.append(each.register_post_accumulate_grad_hook(self._on_gradient))
        self._handles.append(optimizer.register_step_pre_hook(self._on_before_step))
        # This one stays, as a hook cannot take itself away while hooks are called.
        optimizer.register_step_post_hook(self._on_after_step)

    def _on_gradient(self, _parameter: Any) -> None:
        self._guarded(self._mark_gradient)

    def _on_before_step(self, *_: Any) -> None:
        self._guarded(self._mark_before_step)

    def _on_after_step(self, *_: Any) -> None:
        self._guarded(self._after_step)

    def _mark_gradient(self) -> None:
        self._gradient = self._marks.mark(self._gradient)

    def _mark_before_step(self) -> None:
        self._before_step = self._marks.mark()

    def _after_step(self) -> None:
        self._step += 1
        last, self._last = self._last, self._marks.mark()
        if self._step > WARM_UP_STEPS and last is not None and self._gradient is not None:
            self._steps.append((last, self._gradient, self._before_step, self.data_ms))
        self._gradient, self.data_ms = None, 0.0
        if self._step % WINDOW_STEPS == 0 and self._steps:
            self._windows.append((self._step, self._steps))
            self._steps = []
        self._tell()
        if self._told == WINDOWS or time.monotonic() - self._began_s > LIMIT_S:
            self._end()

    def _tell(self) -> None:
        """Print the windows whose marks the device has passed."""
        while self._windows and self._told < WINDOWS and self._marks.is_there(self._windows[0][1][-1][2]):
            last_step, steps = self._windows.pop(0)
            self._told += 1
            between_ms = self._marks.between_ms
            compute_ms = median(between_ms(began, gradient) for began, gradient, _, _ in steps)
            wait_ms = median(between_ms(gradient, before) for _, gradient, before, _ in steps)
            data_ms = median(data_ms for _, _, _, data_ms in steps)
            rank, world = _place()
            sys.stdout.write(
                f"TM_STEPS={last_step} rank={rank}/{world} compute_ms={max(compute_ms, 0):.3f} "
                f"wait_ms={max(wait_ms, 0):.3f} data_ms={data_ms:.3f} left={WINDOWS - self._told}\n"
            )
            sys.stdout.flush()

    def _end(self) -> None:
        self._done = True
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def _guarded(self, call: Any, *arguments: Any) -> None:
        """Make the call, unless it is over; where it fails the watching ends, and the reason goes to the log."""
        if self._done:
            return
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001  # nothing in here may end the training
            self._end()
            sys.stderr.write(f"trainmaster_hook: steps are not watched: {error!r}\n")


def _place() -> tuple[int, int]:
    """Rank and number of ranks: what torch.distributed says, else the environment."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
