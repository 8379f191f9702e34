"""How far a training run is, from the last lines of its log and from its scalars.

Lines are recognised by shape: bars of tqdm (alone, in Lightning, in Transformers), Keras's bars, Megatron's iterations,
the dictionaries that Transformers prints, and words such as `epoch 3/10`, `step: 400`, `loss = 0.1`. Later lines count
more, field by field; what the log does not tell is taken from the scalars. Nothing is guessed beyond that: a run
without any of it has no progress.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from services.logs.domain.curves import Curve

LINE_MAX_CHARS: Final = 2000
_STEP_MAX: Final = 1 << 53
_RECENT_POINTS: Final = 20
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_COUNT: Final = r"\d{1,15}(?:\.\d{1,3})?[kKMG]?"

_TQDM: Final = re.compile(
    rf"(?P<before>[^|]*?)\d{{1,3}}%\|[^|]*\| *(?P<step>{_COUNT})/(?P<total>{_COUNT}) "
    rf"\[(?P<elapsed>[\d:]+)<(?P<left>[\d:?]+)(?:, *(?P<rate>[\d.]+) *(?P<unit>[A-Za-z]+/s|s/[A-Za-z]+))?"
)
_KERAS: Final = re.compile(r"\s*(?P<step>\d{1,15})/(?P<total>\d{1,15})\s+[\[━]")
_MEGATRON: Final = re.compile(r"\biteration\s+(?P<step>\d{1,15})\s*/\s*(?P<total>\d{1,15})\s*\|")
_MEGATRON_MS: Final = re.compile(rf"elapsed time per iteration \(ms\):\s*(?P<ms>{_NUMBER})")
_EPOCH: Final = re.compile(
    rf"\bepochs?['\"]?\s*[:=#\[]*\s*['\"]?(?P<epoch>{_NUMBER})(?:\s*(?:/|of)\s*(?P<total>\d{{1,9}}))?", re.IGNORECASE
)
_STEP: Final = re.compile(
    r"\b(?:global[_ ]?step|step|iter(?:ation)?|batch)['\"]?\s*[:=#\[]*\s*['\"]?(?P<step>\d{1,15})\b(?![.\d])"
    r"(?:\s*(?:/|of)\s*(?P<total>\d{1,15}))?",
    re.IGNORECASE,
)
_LOSS: Final = re.compile(rf"\b(?:[a-z]+[_ /])?loss['\"]?\s*[:=]?\s*['\"]?(?P<loss>{_NUMBER}|nan|inf)\b", re.IGNORECASE)
_MULTIPLES: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known; `within_epoch` says that steps are counted anew in each epoch."""

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    total_epochs: int | None = None
    loss: float | None = None
    steps_per_second: float | None = None
    left_s: float | None = None
    within_epoch: bool | None = None

    @property
    def known(self) -> bool:
        """Whether it says how far the run is."""
        return self.step is not None or self.epoch is not None

    @property
    def fraction(self) -> float | None:
        """How much of the run is done, where its whole length is known."""
        within = self.step / self.total_steps if self.step is not None and self.total_steps else None
        if self.total_epochs and self.epoch is not None:
            done = self.epoch - 1 + within if self.within_epoch and within is not None else self.epoch
            return min(1.0, max(0.0, done / self.total_epochs))
        return min(1.0, within) if within is not None and not self.within_epoch else None

    def over(self, other: Progress) -> Progress:
        """This, with what it does not tell from the other."""
        missing = {each.name: getattr(other, each.name) for each in fields(self) if getattr(self, each.name) is None}
        return replace(self, **missing)


def of_lines(lines: Iterable[str]) -> Progress:
    """What lines of a log say, the last one most."""
    found = Progress()
    for line in lines:
        said = _of_line(line[:LINE_MAX_CHARS])
        if said is not None:
            found = said.over(_still_true(found, said))
    return found


def of_curves(curves: Sequence[Curve]) -> Progress:
    """What the scalars of an attempt say."""
    if not curves:
        return Progress()
    loss = min((curve for curve in curves if "loss" in curve.key.tag.lower()), key=_train_first, default=None)
    epoch = next((curve for curve in curves if curve.key.tag.lower().rpartition("/")[2] == "epoch"), None)
    newest = max(curves, key=lambda curve: int(curve.series.steps[-1]))
    return Progress(
        step=_step(int(newest.series.steps[-1])),
        epoch=_finite(float(epoch.series.values[-1])) if epoch else None,
        loss=_finite(float(loss.series.values[-1])) if loss else None,
        steps_per_second=_rate(newest),
    )


def left_s(
    progress: Progress, elapsed_s: float, before: Progress | None = None, between_s: float = 0.0
) -> float | None:
    """Seconds until the end: by what was done since an earlier look, else by the whole time so far."""
    fraction = progress.fraction
    if progress.left_s and not progress.within_epoch:
        return progress.left_s
    if fraction is None or not 0 < fraction < 1:
        return None
    earlier = before.fraction if before is not None else None
    if earlier is not None and between_s > 0 and fraction > earlier:
        return between_s * (1 - fraction) / (fraction - earlier)
    return elapsed_s * (1 - fraction) / fraction


def _of_line(line: str) -> Progress | None:
    said = Progress()
    for read in (_of_bar, _of_megatron, _of_words):
        found = read(line)
        if found is not None:
            said = said.over(found)
    return said if said != Progress() else None


def _still_true(before: Progress, said: Progress) -> Progress:
    """What was said before, without what a new bar or count overrules."""
    if said.step is None:
        return before
    return replace(before, total_steps=None, steps_per_second=None, left_s=None, within_epoch=None)


def _of_bar(line: str) -> Progress | None:
    bar = _TQDM.search(line)
    if bar is not None:
        return Progress(
            step=_step(_counted(bar["step"])),
            total_steps=_step(_counted(bar["total"])),
            steps_per_second=_per_second(bar["rate"], bar["unit"]),
            left_s=_clock_s(bar["left"]),
            within_epoch="epoch" in bar["before"].lower() or None,
        )
    keras = _KERAS.match(line)
    if keras is not None:
        return Progress(step=int(keras["step"]), total_steps=int(keras["total"]), within_epoch=True)
    return None


def _of_megatron(line: str) -> Progress | None:
    counted = _MEGATRON.search(line)
    if counted is None:
        return None
    took = _MEGATRON_MS.search(line)
    milliseconds = float(took["ms"]) if took else 0.0
    rate = 1000 / milliseconds if milliseconds > 0 else None
    return Progress(step=int(counted["step"]), total_steps=int(counted["total"]), steps_per_second=rate)


def _of_words(line: str) -> Progress:
    epoch, step, loss = _EPOCH.search(line), _STEP.search(line), _LOSS.search(line)
    total_epochs = int(epoch["total"]) if epoch and epoch["total"] else None
    total_steps = int(step["total"]) if step and step["total"] else None
    return Progress(
        step=int(step["step"]) if step else None,
        total_steps=total_steps,
        epoch=_finite(float(epoch["epoch"])) if epoch else None,
        total_epochs=total_epochs,
        loss=_finite(float(loss["loss"])) if loss else None,
        within_epoch=(total_epochs is not None and total_steps is not None) or None,
    )


def _train_first(curve: Curve) -> tuple[bool, str]:
    return "train" not in f"{curve.key.run}/{curve.key.tag}".lower(), curve.key.tag


def _rate(curve: Curve) -> float | None:
    steps, times_s = curve.series.steps[-_RECENT_POINTS:], curve.series.times_s[-_RECENT_POINTS:]
    took_s = float(times_s[-1] - times_s[0])
    return _finite(float(steps[-1] - steps[0]) / took_s) if took_s > 0 and steps[-1] > steps[0] else None


def _per_second(rate: str | None, unit: str | None) -> float | None:
    try:
        number = float(rate or "")
    except ValueError:
        return None
    if unit is not None and unit.startswith("s/"):
        return 1 / number if number > 0 else None
    return number


def _counted(text: str) -> int:
    multiple = _MULTIPLES.get(text[-1], 1.0)
    return int(float(text.rstrip("kKMG")) * multiple)


def _clock_s(text: str) -> float | None:
    """Seconds of `1:02:03`; None of `?`."""
    parts = text.split(":")
    if not all(part.isdecimal() for part in parts):
        return None
    return float(sum(int(part) * 60**place for place, part in enumerate(reversed(parts))))


def _step(number: int) -> int | None:
    return number if 0 <= number < _STEP_MAX else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
