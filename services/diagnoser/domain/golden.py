"""What multiplications of whole numbers must give on every device, as checksums: their products are exact. Pure.

The names say the type and the size of the squares; see `services/agent/worker/kernels` for what is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GOLDEN: Final[Mapping[str, str]] = {
    "bf16 exact 512": "9dcabc52",
    "fp32 exact 512": "44994ed1",
    "bf16 exact 4096": "b79f1fcf",
    "fp32 exact 4096": "5a2c51c1",
}
