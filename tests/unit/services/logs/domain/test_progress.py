"""Progress from logs as the common libraries write them."""

from __future__ import annotations

import numpy as np
import pytest

from services.logs.domain.curves import Curve, CurveKey, Series
from services.logs.domain.progress import Progress, left_s, of_curves, of_lines

MEGATRON = (
    " iteration      100/  500000 | consumed samples:         3200 | elapsed time per iteration (ms): 250.0 | "
    "learning rate: 1.000E-04 | global batch size:    32 | lm loss: 6.4E+00 | loss scale: 1.0 |"
)
SHAPES = {
    "tqdm": (
        ["train:  45%|████▌     | 450/1000 [00:45<00:55, 10.0it/s, loss=0.123]"],
        Progress(step=450, total_steps=1000, loss=0.123, steps_per_second=10.0, left_s=55.0),
    ),
    "tqdm, slow": (
        [" 10%|█         | 2/20 [00:20<03:00, 10.00s/it]"],
        Progress(step=2, total_steps=20, steps_per_second=0.1, left_s=180.0),
    ),
    "tqdm at its start": (
        ["  0%|          | 0/1.5k [00:00<?, ?it/s]"],
        Progress(step=0, total_steps=1500),
    ),
    "lightning": (
        ["Epoch 3:  50%|█████     | 50/100 [00:05<00:05,  9.5it/s, v_num=0, train_loss=0.3]"],
        Progress(step=50, total_steps=100, epoch=3, loss=0.3, steps_per_second=9.5, left_s=5.0, within_epoch=True),
    ),
    "transformers": (
        [
            "{'loss': 0.52, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.25}",
            "  5%|▌         | 50/1000 [00:10<03:10,  5.0it/s]",
        ],
        Progress(step=50, total_steps=1000, epoch=1.25, loss=0.52, steps_per_second=5.0, left_s=190.0),
    ),
    "transformers with texts": (["{'loss': '0.52', 'epoch': '1.25'}"], Progress(epoch=1.25, loss=0.52)),
    "megatron": (
        [MEGATRON],
        Progress(step=100, total_steps=500000, loss=6.4, steps_per_second=4.0),
    ),
    "keras": (
        ["Epoch 3/10", "100/469 ━━━━━━━━━━ 3s 5ms/step - accuracy: 0.9 - loss: 0.31"],
        Progress(step=100, total_steps=469, epoch=3, total_epochs=10, loss=0.31, within_epoch=True),
    ),
    "a tutorial": (
        ["Epoch [3/10], Step [100/600], Loss: 0.31"],
        Progress(step=100, total_steps=600, epoch=3, total_epochs=10, loss=0.31, within_epoch=True),
    ),
    "plain words": (["epoch 3 loss 0.25 accuracy 0.9"], Progress(epoch=3, loss=0.25)),
    "key and value": (["step=400 loss=nan lr=0.1"], Progress(step=400)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_common_shapes_are_recognised(name: str):
    lines, expected = SHAPES[name]
    found = of_lines(lines)
    assert found == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "downloading model.safetensors",
        "connected to 10.0.0.1:29500",
        "The loss of a node is no problem",
        "stepping through 100 files",
        "50% of the data",
        "2026-01-01 10:20:30 INFO ready in 3/4 regions",
        "x" * 100_000,
        "|" * 5000 + "%|",
    ],
)
def test_other_lines_are_no_progress(line: str):
    assert not of_lines([line]).known


def test_a_later_line_counts_more_and_the_rest_stays():
    found = of_lines(["Epoch 1/5 loss: 0.5", "step 10/100 loss: 0.4", "step 20/100", "saving a checkpoint"])
    assert (found.epoch, found.total_epochs, found.step, found.loss) == (1, 5, 20, 0.4)


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [
        (Progress(step=25, total_steps=100), 0.25),
        (Progress(step=50, total_steps=100, epoch=3, total_epochs=10, within_epoch=True), 0.25),
        (Progress(epoch=5, total_epochs=10), 0.5),
        (Progress(step=50, total_steps=100, epoch=3, within_epoch=True), None),
        (Progress(step=50), None),
        (Progress(step=300, total_steps=100), 1.0),
        (Progress(step=3, total_steps=0), None),
    ],
)
def test_how_much_is_done_is_told_where_the_length_is_known(progress: Progress, fraction: float | None):
    assert progress.fraction == fraction


def test_the_end_is_estimated_by_the_latest_pace_where_it_is_known():
    now, before = Progress(step=50, total_steps=100), Progress(step=40, total_steps=100)
    assert left_s(now, elapsed_s=100) == 100
    assert left_s(now, 100, before, between_s=60) == pytest.approx(300)
    assert left_s(Progress(step=50, total_steps=100, left_s=7), 100) == 7
    assert left_s(Progress(step=50, total_steps=100, left_s=7, epoch=1, within_epoch=True), 100) is None
    assert left_s(Progress(step=5), 100) is None
    assert left_s(Progress(step=0, total_steps=100), 100) is None
    assert left_s(Progress(step=100, total_steps=100, left_s=0.0), 100) is None


def curve(tag: str, steps: list[int], values: list[float], run: str = "") -> Curve:
    times = np.array([float(step) / 2 for step in steps])
    return Curve(CurveKey(1, run, tag), Series(np.array(steps, np.int64), times, np.array(values)))


def test_scalars_tell_step_loss_of_training_epoch_and_pace():
    curves = [
        curve("epoch", [10, 20], [0.0, 1.0]),
        curve("loss/val", [20], [9.0]),
        curve("loss/train", [10, 20, 30], [1.0, 0.5, 0.25]),
        curve("lr", [30], [0.1]),
    ]
    assert of_curves(curves) == Progress(step=30, epoch=1.0, loss=0.25, steps_per_second=2.0)
    assert of_curves([]) == Progress()
    assert of_curves([curve("loss", [5], [float("nan")])]) == Progress(step=5)


def test_what_the_log_does_not_tell_comes_from_the_scalars():
    log, scalars = Progress(step=5, total_steps=10), Progress(step=4, loss=0.5)
    assert log.over(scalars) == Progress(step=5, total_steps=10, loss=0.5)
