"""What multiplications of whole numbers must give on every device, as checksums: their products are exact. Pure.

The names say the type and the size of the squares; see `services/agent/worker/kernels` for what is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GOLDEN: Final[Mapping[str, str]] = {
    "bf16 exact 512": "0570a2f0",
    "fp32 exact 512": "171caa9e",
    "bf16 exact 4096": "d795098d",
    "fp32 exact 4096": "8eaf41b2",
}
