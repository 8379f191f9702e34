"""A real PyTorch job whose third rank is slow: its first steps tell so, and the job itself notices nothing."""

from __future__ import annotations

import sys

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

TRAIN = """
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainmaster_hook import watch_steps

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
watch_steps(optimizer)
for _ in range(60):
    optimizer.zero_grad()
    time.sleep(0.1 if dist.get_rank() == 2 else 0)
    model(torch.ones(8, 16)).sum().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
"""


def test_a_rank_that_holds_the_others_up_is_named_and_its_node_remembered(platform: Platform) -> None:
    code = {"inline": {"train.py": TRAIN}}
    document = job_document("lagging", f"{sys.executable} /code/train.py", replicas=3, code=code)
    job = platform.submit(document)
    status = platform.await_end(job, timeout_s=200)["status"]
    assert status["state"] == "Succeeded"

    attempt = await_("the first steps are judged", lambda: platform.job(job)["status"]["attempts"][0]["burnIn"])
    assert (attempt["source"], attempt["ranks"], attempt["lastStep"]) == ("hook", 3, 60)
    (suspect,) = attempt["suspects"]
    assert (suspect["role"], suspect["index"], suspect["rank"]) == ("worker", 2, 2)
    assert suspect["computeMs"] > 2 * suspect["middleMs"]

    page = platform.cli("describe", "lagging").stdout
    assert f"rank 2 (worker-2) on {suspect['nodeName']}" in page
    assert "lagged:" in platform.cli("describe", "node", suspect["nodeName"]).stdout
