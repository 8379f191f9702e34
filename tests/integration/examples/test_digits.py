"""The digits training by itself: two ranks with the variables that torchrun and the platform would give them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.nats import free_port

pytestmark = pytest.mark.timeout(300)  # PyTorch takes its time to load on a busy machine

TRAIN = Path(__file__).parents[3] / "examples" / "digits-ddp" / "train.py"


def train(folder: Path, epochs: int, **variables: str) -> list[str]:
    """What each of two ranks prints."""
    environment = os.environ | variables
    environment |= {"TM_CHECKPOINT_DIR": str(folder / "checkpoints"), "TM_TENSORBOARD_DIR": str(folder / "runs")}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(TRAIN), "--epochs", str(epochs)],
            env=environment | {"RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=100)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return said


def test_only_a_resumed_attempt_goes_on_after_the_last_epoch_that_was_kept(tmp_path: Path) -> None:
    for said in train(tmp_path, 1):
        assert "resumed after" not in said
    for rank, said in enumerate(train(tmp_path, 2, TM_RESUME="1")):
        assert f"rank {rank}: resumed after epoch 1" in said
        assert "epoch 2/2" in said
        assert "epoch 1/2" not in said
    for said in train(tmp_path, 1):
        assert "resumed after" not in said
