"""Kubernetes' quantities as integers: `100m`, `1.5Gi`, `129e6`; amounts of what a node has round down.

A quantity is a decimal number with a suffix: none, m (and n, u), k to E for powers of 1000, Ki to Ei for powers of
1024, or an exponent.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

_BINARY: Final = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)}
_SMALL: Final = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SUFFIXES: Final = {**_BINARY, **_DECIMAL, **_SMALL}


def quantity(text: object) -> Decimal:
    """The number that a quantity means; raises ValueError."""
    written = str(text)
    for suffix, factor in _SUFFIXES.items():
        if written.endswith(suffix):
            return _number(written.removesuffix(suffix), written) * factor
    return _number(written, written)


def millis(text: object) -> int:
    """Cores as millicores."""
    return int(quantity(text) * 1000)


def whole(text: object) -> int:
    """Bytes, or pieces."""
    return int(quantity(text))


def _number(digits: str, written: str) -> Decimal:
    try:
        number = Decimal(digits)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{written!r} is no quantity such as 500m or 4Gi")
    return number
