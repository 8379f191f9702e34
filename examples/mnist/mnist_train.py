"""Trains a small CNN on MNIST in one process: the single-replica quick start.

Reads the images from /mnt/data/dataSet, writes the best model and the TensorBoard records to /mnt/data/output. Started
as `python /code/mnist_train.py` (see job.yaml), and just the same outside of a job with `--data FOLDER`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from mnist import SimpleCNN, load_split
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

LOG_EVERY_BATCHES = 100


class Training:
    """Model, data and records of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.train_batches = DataLoader(load_split(options.data, "train"), options.batch_size, shuffle=True)
        self.validation_batches = DataLoader(load_split(options.data, "t10k"), options.batch_size)
        self.model = SimpleCNN().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.learning_rate)
        self.output = options.data / "output"
        self.writer = SummaryWriter(self.output / "runs" / "mnist_experiment")

    def train_epoch(self, epoch: int) -> None:
        self.model.train()
        for index, (images, labels) in enumerate(self.train_batches):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(images.to(self.device)), labels.to(self.device))
            loss.backward()
            self.optimizer.step()
            if index % LOG_EVERY_BATCHES == 0:
                self.writer.add_scalar("Loss/train", loss.item(), epoch * len(self.train_batches) + index)
                progress = 100 * index // len(self.train_batches)
                print(f"epoch {epoch}: batch {index}/{len(self.train_batches)} ({progress} %)  loss {loss.item():.6f}")

    @torch.no_grad()
    def validate(self, epoch: int) -> float:
        """Accuracy in per cent."""
        self.model.eval()
        loss_sum, correct, seen = 0.0, 0, 0
        for images, labels in self.validation_batches:
            scores, targets = self.model(images.to(self.device)), labels.to(self.device)
            loss_sum += nn.functional.cross_entropy(scores, targets, reduction="sum").item()
            correct += int((scores.argmax(dim=1) == targets).sum())
            seen += len(targets)
        accuracy = 100.0 * correct / seen
        print(f"epoch {epoch}: validation loss {loss_sum / seen:.4f}  accuracy {correct}/{seen} ({accuracy:.2f} %)")
        self.writer.add_scalar("Loss/validation", loss_sum / seen, epoch)
        self.writer.add_scalar("Accuracy/validation", accuracy, epoch)
        self.writer.flush()
        return accuracy

    def run(self, epochs: int) -> None:
        best_accuracy = 0.0
        for epoch in range(epochs):
            self.train_epoch(epoch)
            accuracy = self.validate(epoch)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                torch.save(self.model.state_dict(), self.output / "best_model.pth")
                print(f"model saved with accuracy {best_accuracy:.2f} %")
        self.writer.close()
        print("Training complete")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default="/mnt/data", help="folder with dataSet/, and for output/")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    options = parser.parse_args()
    Training(options).run(options.epochs)


if __name__ == "__main__":
    main()
