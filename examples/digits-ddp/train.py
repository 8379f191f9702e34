"""Trains a small CNN on scikit-learn's handwritten digits with PyTorch DDP over Gloo, on CPUs.

One copy of this file runs in each replica, started by torchrun (see job.yaml). Each rank trains on its own share of
the images (DistributedSampler), DDP averages the gradients, and every rank validates its own share of the held-out
images, so that each figure printed is over all of them. Rank 0 alone writes: one checkpoint, replaced after each
epoch, and TensorBoard scalars. The platform names both folders (TM_CHECKPOINT_DIR, TM_TENSORBOARD_DIR) and sets
TM_RESUME=1 from the second attempt on; training then goes on after the last epoch that was kept.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset
from torch.utils.tensorboard import SummaryWriter

HELD_OUT_IMAGES = 360  # of 1797: a fifth of them are never trained on


class DigitsNet(nn.Module):
    """Two convolutions and two dense layers for grey images of 8x8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))


def load_splits(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """The digits as (training, validation); every rank draws the same split from the same seed."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16.0
    targets = torch.tensor(labels)
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    held_out, kept = order[:HELD_OUT_IMAGES], order[HELD_OUT_IMAGES:]
    return TensorDataset(images[kept], targets[kept]), TensorDataset(images[held_out], targets[held_out])


def sum_over_ranks(*values: float) -> list[float]:
    totals = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(totals)
    return totals.tolist()


def train_epoch(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """One pass over this rank's share; the mean loss over all ranks."""
    model.train()
    loss_sum = 0.0
    for images, targets in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
    total, count = sum_over_ranks(loss_sum, len(batches))
    return total / count


@torch.no_grad()
def validate(model: nn.Module, batches: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy in per cent over the held-out images of all ranks."""
    model.eval()
    loss_sum, correct, seen = 0.0, 0, 0
    for images, targets in batches:
        scores = model(images)
        loss_sum += nn.functional.cross_entropy(scores, targets, reduction="sum").item()
        correct += int((scores.argmax(dim=1) == targets).sum())
        seen += len(targets)
    loss_total, correct_total, seen_total = sum_over_ranks(loss_sum, correct, seen)
    return loss_total / seen_total, 100.0 * correct_total / seen_total


def save_checkpoint(path: Path, state: dict) -> None:
    """Replaces the checkpoint in one step: a job killed while it saves leaves the one before."""
    unfinished = path.with_suffix(".tmp")
    torch.save(state, unfinished)
    unfinished.replace(path)


def load_checkpoint(path: Path) -> dict | None:
    if os.environ.get("TM_RESUME") != "1" or not path.exists():
        return None
    return torch.load(path, map_location="cpu", weights_only=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32, help="images a step and replica")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--checkpoints", type=Path, default=os.environ.get("TM_CHECKPOINT_DIR", "checkpoints"))
    parser.add_argument("--runs", type=Path, default=os.environ.get("TM_TENSORBOARD_DIR", "runs"))
    return parser.parse_args()


def train(options: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    training, validation = load_splits(options.seed)
    sampler = DistributedSampler(training, seed=options.seed)
    training_batches = DataLoader(training, options.batch_size, sampler=sampler)
    validation_batches = DataLoader(Subset(validation, range(rank, len(validation), world)), batch_size=256)

    model = DistributedDataParallel(DigitsNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    checkpoint_path = options.checkpoints / "digits.pt"
    first_epoch = 1
    if checkpoint := load_checkpoint(checkpoint_path):
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        first_epoch = checkpoint["epoch"] + 1
        print(f"rank {rank}: resumed after epoch {checkpoint['epoch']}")

    writer = SummaryWriter(options.runs) if rank == 0 else None
    options.checkpoints.mkdir(parents=True, exist_ok=True)
    print(f"rank {rank} of {world}: {len(sampler)} of {len(training)} training images, {len(validation)} held out")
    for epoch in range(first_epoch, options.epochs + 1):
        began = time.monotonic()
        sampler.set_epoch(epoch)
        loss = train_epoch(model, training_batches, optimizer)
        validation_loss, accuracy = validate(model, validation_batches)
        print(
            f"rank {rank}: epoch {epoch}/{options.epochs} ({100 * epoch // options.epochs} %)  train loss {loss:.4f}  "
            f"validation loss {validation_loss:.4f}  accuracy {accuracy:.2f} %  {time.monotonic() - began:.2f} s"
        )
        if writer:
            writer.add_scalar("Loss/train", loss, epoch)
            writer.add_scalar("Loss/validation", validation_loss, epoch)
            writer.add_scalar("Accuracy/validation", accuracy, epoch)
            writer.flush()  # the writer keeps records back for two minutes; curves are to grow while the job runs
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            save_checkpoint(checkpoint_path, state)
    if writer:
        writer.close()
        print(f"Training complete. The checkpoint is {checkpoint_path}")
    # Nobody leaves while rank 0 still writes. It also lets Gloo's threads put down the last all-reduce: they need the
    # interpreter for that, and an interpreter that is going away ends the process with "terminate called".
    dist.barrier()


def main() -> None:
    options = parse_arguments()
    torch.manual_seed(options.seed)
    dist.init_process_group("gloo")
    try:
        train(options)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
