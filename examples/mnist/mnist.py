"""What both MNIST trainings share: the images from the four IDX files, and the network.

An IDX file is big-endian: two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, the size of each,
then the values. Each file is taken with or without `.gz`, from the folder that torchvision would have put it in.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

FOLDER = Path("dataSet/MNIST/raw")  # below the mounted folder
UNSIGNED_BYTES = 8


def load_split(data: Path, split: str) -> TensorDataset:
    """Images scaled to -1..1 and labels; `split` is `train` or `t10k`, as the files are called."""
    images = torch.from_numpy(_read_idx(_find(data / FOLDER, f"{split}-images-idx3-ubyte")))
    labels = torch.from_numpy(_read_idx(_find(data / FOLDER, f"{split}-labels-idx1-ubyte")))
    return TensorDataset((images.float().unsqueeze(1) / 255.0 - 0.5) / 0.5, labels.long())


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise SystemExit(
        f"{folder}: there is no {name} and no {name}.gz. Put the four MNIST files (images and labels, each of `train` "
        "and `t10k`) into this folder of the storage that the job mounts; README.md beside this script says where."
    )


def _read_idx(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    zeros, kind, dimensions = struct.unpack_from(">HBB", content)
    if zeros != 0 or kind != UNSIGNED_BYTES:
        raise SystemExit(f"{path}: this is no IDX file of unsigned bytes; download it again")
    shape = struct.unpack_from(f">{dimensions}I", content, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


class SimpleCNN(nn.Module):
    """Two convolutions and two dense layers for grey images of 28x28 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 10, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(10, 20, kernel_size=3),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(20 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))
