"""Folders as hostile programs leave them."""

from __future__ import annotations

import os
from pathlib import Path

BEYOND_ANY_STACK = 1100
BEYOND_ANY_PATH = 2100


def make_deep(top: Path, depth: int = BEYOND_ANY_STACK) -> None:
    """Folders in each other, a file in each, as a program makes them that goes down step by step."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
