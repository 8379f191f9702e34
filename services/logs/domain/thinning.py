"""Which points of a long curve are shown, so that nothing that stands out is lost.

The curve is cut into buckets of equally many points, and of each the lowest and the highest are kept (the choice of
min-max-LTTB without its second step, which would take more time than it saves), and the first that is no finite number
where there is one: a loss that becomes NaN for one step is seen at any scale. The first and the last point are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def shown(values: NDArray[np.float64], points: int) -> Indices:
    """Indices of at most `points` values, rising; `points` is at least 5."""
    count = len(values)
    if count <= points:
        return np.arange(count, dtype=np.int64)
    inner = values[1:-1]
    finite = np.isfinite(inner)
    whole = bool(finite.all())
    size = -(-len(inner) // ((points - 2) // (2 if whole else 3)))
    low = _padded(np.where(finite, inner, np.inf), size, np.inf).argmin(axis=1)
    high = _padded(np.where(finite, inner, -np.inf), size, -np.inf).argmax(axis=1)
    firsts = np.arange(len(low)) * size + 1
    kept = [np.array([0, count - 1]), firsts + low, firsts + high]
    if not whole:
        odd = _padded(~finite, size, fill=False)
        kept.append((firsts + odd.argmax(axis=1))[odd.any(axis=1)])
    return np.unique(np.concatenate(kept)).astype(np.int64)


def _padded(values: NDArray[np.generic], size: int, fill: float) -> NDArray[np.generic]:
    """The values in rows of one bucket each."""
    missing = -len(values) % size
    return np.concatenate([values, np.full(missing, fill, values.dtype)]).reshape(-1, size)
