"""Adds up the ranks of all processes of the job: the least that shows that they found each other."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    ranks = torch.tensor([dist.get_rank()])
    dist.all_reduce(ranks)
    line = (
        f"rank {dist.get_rank()} of {dist.get_world_size()}, process {os.environ['LOCAL_RANK']} of replica "
        f"{os.environ['VC_TASK_INDEX']}: the ranks add up to {ranks.item()}\n"
    )
    print(line, end="")  # in one piece: the processes of a replica share its log, and unbuffered each piece is a write
    dist.barrier()  # nobody leaves while another still talks
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
