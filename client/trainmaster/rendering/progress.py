"""Progress in words: in `describe` and the history as a sentence, in lists as a few characters."""

from __future__ import annotations

from collections.abc import Iterator

from trainmaster.documents import Progress
from trainmaster.rendering.moments import date_time


def told(progress: Progress, *, ended: bool = False) -> str:
    """`45 %, step 450 of 1000, epoch 1.25, loss 0.123, 10 steps/s, ends about …`; no end is foretold after the end."""
    return ", ".join(_parts(progress, ended=ended))


def in_short(progress: Progress | None) -> str:
    """`45 %`, or what is counted where the whole is not known."""
    if progress is None:
        return ""
    if progress.fraction is not None:
        return f"{progress.fraction * 100:.0f} %"
    return f"step {progress.step}" if progress.step is not None else f"epoch {progress.epoch or 0:g}"


def _parts(progress: Progress, *, ended: bool) -> Iterator[str]:
    if progress.fraction is not None:
        yield f"{progress.fraction * 100:.0f} %"
    if progress.step is not None:
        within = " of the epoch" if progress.within_epoch else ""
        yield f"step {progress.step}{_of(progress.total_steps)}{within}"
    if progress.epoch is not None:
        yield f"epoch {progress.epoch:g}{_of(progress.total_epochs)}"
    if progress.loss is not None:
        yield f"loss {progress.loss:.6g}"
    if progress.steps_per_second is not None:
        yield f"{progress.steps_per_second:.3g} steps/s"
    if progress.estimated_end is not None and not ended:
        yield f"ends about {date_time(progress.estimated_end)}"


def _of(total: int | None) -> str:
    return f" of {total}" if total is not None else ""
