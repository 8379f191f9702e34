from __future__ import annotations

import asyncio

from shared.http.health import run_checks


async def test_a_check_that_hangs_is_reported_and_does_not_hide_the_others() -> None:
    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    async def fine() -> str:
        return "fine"

    readiness = await run_checks({"hangs": hangs, "fine": fine}, timeout_s=0.01)
    assert readiness.checks["fine"].ok
    assert readiness.checks["hangs"].detail == "no answer within 0.01 s"
    assert not readiness.ready


async def test_whatever_a_check_raises_is_its_finding() -> None:
    async def breaks() -> str:
        raise KeyError("x")

    readiness = await run_checks({"breaks": breaks})
    assert readiness.checks["breaks"].detail == "KeyError: 'x'"


async def test_a_service_without_checks_is_ready() -> None:
    assert (await run_checks({})).ready
