"""Trains a small model with DDP on three replicas, one of which is slowed on purpose; the hook tells which.

`trainmaster_hook` lies in every replica. Without the two lines that use it the job trains in the same way, and nobody
could tell the ranks apart: all of them take the same time for a step.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trainmaster_hook import watch_steps


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--slow-rank", type=int, default=2, help="-1 for none")
    parser.add_argument("--slower-ms", type=float, default=100.0)
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    slow_s = options.slower_ms / 1000 if dist.get_rank() == options.slow_rank else 0.0
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watch_steps(optimizer)
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        time.sleep(slow_s)
        loss = model(torch.randn(32, 64)).square().mean()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 20 == 0:
            print(f"step {step}/{options.steps} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
