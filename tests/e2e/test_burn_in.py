"""A real PyTorch job whose third rank is slow: its first steps tell so, and the job itself notices nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.support.platform import Platform, await_

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "slow-rank"


def test_a_rank_that_holds_the_others_up_is_named_and_its_node_remembered(platform: Platform) -> None:
    document = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
    document["spec"]["code"] = {"inline": {"train.py": (EXAMPLE / "train.py").read_text()}}
    (role,) = document["spec"]["roles"]
    role["command"] = role["command"].replace("python", sys.executable) + " --steps 60"
    job = platform.submit(document)
    status = platform.await_end(job, timeout_s=200)["status"]
    assert status["state"] == "Succeeded"

    attempt = await_("the first steps are judged", lambda: platform.job(job)["status"]["attempts"][0]["burnIn"])
    assert (attempt["source"], attempt["ranks"], attempt["lastStep"]) == ("hook", 3, 60)
    (suspect,) = attempt["suspects"]
    assert (suspect["role"], suspect["index"], suspect["rank"]) == ("worker", 2, 2)
    assert suspect["computeMs"] > 2 * suspect["middleMs"]

    page = platform.cli("describe", "slow-rank").stdout
    assert f"{suspect['nodeName']}, suspect: rank 2 (worker-2) needs" in page
    assert "lagged:" in platform.cli("describe", "node", suspect["nodeName"]).stdout
