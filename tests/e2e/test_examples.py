"""The examples as a newcomer runs them: through the command line, on a real platform."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_digits

from tests.support.nats import free_port
from tests.support.platform import Platform

TRAINING_S = 280  # PyTorch takes its time to load on a busy machine
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
MNIST = EXAMPLES / "mnist"


def job_of(path: Path) -> dict[str, Any]:
    """The training job among the documents of an example."""
    jobs = [one for one in yaml.safe_load_all(path.read_text()) if one["kind"] == "TrainingJob"]
    assert len(jobs) == 1
    job: dict[str, Any] = jobs[0]
    job["spec"]["code"]["upload"] = str(path.parent)
    return job


def follow(platform: Platform, tmp_path: Path, job: dict[str, Any]) -> str:
    """What a job that succeeds prints."""
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return platform.cli("apply", "-f", str(file), "--follow", timeout_s=TRAINING_S).stdout


def test_the_demo_trains_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = [sys.executable, str(EXAMPLES / "demo.py"), "--folder", str(tmp_path / "demo")]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=TRAINING_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[worker-1] rank 1: epoch 20/20" in done.stdout
    assert "Accuracy/validation" in done.stdout
    assert "no process is left" in done.stdout
    assert list((tmp_path / "demo" / "data").glob("**/digits.pt"))


def test_the_older_launcher_finds_its_master_through_the_host_list(platform: Platform, tmp_path: Path) -> None:
    job = job_of(EXAMPLES / "torch-launch" / "job.yaml")
    role = job["spec"]["roles"][0]
    assert "--master_port=21000" in role["command"]
    role["command"] = role["command"].replace("21000", str(free_port()))  # somebody else may run the example here
    said = follow(platform, tmp_path, job)
    for rank in range(4):
        replica, process = divmod(rank, 2)
        line = f"rank {rank} of 4, process {process} of replica {replica}: the ranks add up to 6"
        assert f"[task1-{replica}] {line}" in said


# --- MNIST, with real digits blown up to its size --------------------------------------------------------------------


def idx(values: np.ndarray) -> bytes:
    """The values as the content of an IDX file."""
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def mnist_job(platform: Platform, request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """Gives a job of the MNIST example, one epoch long, with images where it looks for them."""
    folder = platform.scratch / request.node.name
    raw = folder / "dataSet" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    pixels, labels = load_digits(return_X_y=True)
    large = np.kron(pixels[:512].reshape(-1, 8, 8) * 15, np.ones((3, 3))).astype(np.uint8)
    images = np.pad(large, ((0, 0), (2, 2), (2, 2)))
    for split in ("train", "t10k"):
        (raw / f"{split}-images-idx3-ubyte").write_bytes(idx(images))
        (raw / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[:512].astype(np.uint8))))

    def job(name: str) -> dict[str, Any]:
        document = job_of(MNIST / name)
        document["spec"]["mounts"][0] |= {"source": "scratch", "subPath": folder.name}
        document["spec"]["roles"][0]["command"] += " --epochs 1"
        return document

    return job


def test_mnist_trains_in_one_replica(
    platform: Platform, tmp_path: Path, mnist_job: Callable[[str], dict[str, Any]]
) -> None:
    said = follow(platform, tmp_path, mnist_job("job.yaml"))
    assert "Training complete" in said
    assert list(platform.scratch.glob("*/output/best_model.pth"))
    assert "Accuracy/validation" in platform.cli("metrics", "mnist").stdout


def test_mnist_trains_in_two_replicas(
    platform: Platform, tmp_path: Path, mnist_job: Callable[[str], dict[str, Any]]
) -> None:
    said = follow(platform, tmp_path, mnist_job("job-distributed.yaml"))
    assert "[worker-1] rank 1: epoch 0" in said
    assert "[worker-0] Training complete" in said
    assert list(platform.scratch.glob("*/output_distributed/best_model.pth"))


def test_mnist_without_its_images_says_where_they_go(tmp_path: Path) -> None:
    script = [sys.executable, str(MNIST / "mnist_train.py"), "--data", str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=TRAINING_S, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/dataSet/MNIST/raw: there is no train-images-idx3-ubyte" in done.stderr
