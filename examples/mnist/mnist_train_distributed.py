"""Trains a small CNN on MNIST with PyTorch DDP: the quick start with several replicas.

Started by torchrun in each replica (see job-distributed.yaml). Uses NCCL where every process has a GPU of its own, and
Gloo on CPUs. Each rank trains on its share of the images and validates its share; rank 0 writes the best model and the
TensorBoard records to /mnt/data/output_distributed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from mnist import SimpleCNN, load_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset
from torch.utils.tensorboard import SummaryWriter

LOG_EVERY_BATCHES = 100


class Training:
    """This rank's model, share of the data, and records (rank 0 only)."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.rank, self.world, self.device = dist.get_rank(), dist.get_world_size(), device
        training, validation = load_split(options.data, "train"), load_split(options.data, "t10k")
        self.sampler = DistributedSampler(training)
        self.train_batches = DataLoader(training, options.batch_size, sampler=self.sampler)
        share = Subset(validation, range(self.rank, len(validation), self.world))
        self.validation_batches = DataLoader(share, options.batch_size)
        devices = [device] if device.type == "cuda" else None
        self.model = DistributedDataParallel(SimpleCNN().to(device), device_ids=devices)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.learning_rate)
        self.output = options.data / "output_distributed"
        self.writer = SummaryWriter(self.output / "runs" / "mnist_experiment") if self.rank == 0 else None

    def train_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
        self.model.train()
        for index, (images, labels) in enumerate(self.train_batches):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(images.to(self.device)), labels.to(self.device))
            loss.backward()
            self.optimizer.step()
            if index % LOG_EVERY_BATCHES == 0:
                progress = 100 * index // len(self.train_batches)
                print(f"rank {self.rank}: epoch {epoch} ({progress} %)  loss {loss.item():.6f}")
                if self.writer:
                    self.writer.add_scalar("Loss/train", loss.item(), epoch * len(self.train_batches) + index)

    @torch.no_grad()
    def validate(self, epoch: int) -> float:
        """Accuracy in per cent over the shares of all ranks."""
        self.model.eval()
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)  # loss, correct, seen
        for images, labels in self.validation_batches:
            scores, targets = self.model(images.to(self.device)), labels.to(self.device)
            sums[0] += nn.functional.cross_entropy(scores, targets, reduction="sum")
            sums[1] += (scores.argmax(dim=1) == targets).sum()
            sums[2] += len(targets)
        dist.all_reduce(sums)
        loss_sum, correct, seen = sums.tolist()
        accuracy = 100.0 * correct / seen
        if self.writer:
            print(f"epoch {epoch}: validation loss {loss_sum / seen:.4f}  accuracy {accuracy:.2f} %")
            self.writer.add_scalar("Loss/validation", loss_sum / seen, epoch)
            self.writer.add_scalar("Accuracy/validation", accuracy, epoch)
            self.writer.flush()
        return accuracy

    def run(self, epochs: int) -> None:
        best_accuracy = 0.0
        for epoch in range(epochs):
            self.train_epoch(epoch)
            accuracy = self.validate(epoch)
            if self.writer and accuracy > best_accuracy:
                best_accuracy = accuracy
                torch.save(self.model.module.state_dict(), self.output / "best_model.pth")
                print(f"model saved with accuracy {best_accuracy:.2f} %")
        if self.writer:
            self.writer.close()
            print("Training complete")
        dist.barrier()  # nobody leaves while rank 0 still writes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default="/mnt/data", help="folder with dataSet/, and for output")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64, help="images a step and replica")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    options = parser.parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    try:
        Training(options, device).run(options.epochs)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
