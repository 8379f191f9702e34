"""Kubernetes' quantities as integers."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.quantities import millis, whole


@pytest.mark.parametrize(
    ("text", "cores_m"), [("2", 2000), ("100m", 100), ("1.5", 1500), (4, 4000), ("1500000u", 1500), ("0", 0)]
)
def test_cores_are_millicores(text, cores_m):
    assert millis(text) == cores_m


@pytest.mark.parametrize(
    ("text", "amount"), [("4Gi", 4 << 30), ("1500M", 1_500_000_000), ("129e6", 129_000_000), ("1Ki", 1024), (8, 8)]
)
def test_bytes_and_pieces_are_integers(text, amount):
    assert whole(text) == amount


@pytest.mark.parametrize("text", ["much", "", "1Xi", "NaN"])
def test_anything_else_is_an_error(text):
    with pytest.raises(ValueError, match="is no quantity such as 500m or 4Gi"):
        whole(text)
