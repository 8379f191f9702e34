"""Writes of catalog documents that meet others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.js.errors import BadRequestError

from shared.bus import Bus, ConcurrentWriteError
from shared.catalog import CatalogStore, Pool

POOL = Pool.model_validate({"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": {"name": "public"}})


@pytest.mark.parametrize("code", [10071, 10164])
async def test_a_document_that_another_has_written_or_writes_just_now_is_a_conflict(code: int):
    async def publish(*_: Any, **__: Any) -> None:
        raise BadRequestError(code=400, err_code=code, description="wrong last sequence")

    bus = SimpleNamespace(js=SimpleNamespace(publish=publish))
    with pytest.raises(ConcurrentWriteError):
        await CatalogStore(cast("Bus", bus)).put(POOL, expected=0)
