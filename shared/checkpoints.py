"""Which of two checkpoints is the further one, by their paths alone.

What a file is worth only user code knows, but nearly all of it writes the step into the name: `checkpoint-500`,
`epoch=3-step=1200.ckpt`, `global_step1000/mp_rank_00/model.pt`. So the numbers of a path are compared in their order.
A path without a number is one that is written over and over, such as `last.pt`: it says that something was saved, and
not how far that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]{1,15}")


def numbers_in(path: str) -> tuple[int, ...]:
    """The numbers of a path, in their order."""
    return tuple(map(int, _NUMBER.findall(path)))


def furthest(paths: Iterable[str]) -> str | None:
    """The path with the greatest numbers; of several that say the same the last by name. None where there is none."""
    return max(paths, key=lambda path: (numbers_in(path), path), default=None)
