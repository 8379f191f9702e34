"""Whether a service is ready, as the sum of named checks that its bootstrap passes in.

A check is a coroutine function that returns a sentence where all is well and raises where it is not. Sockets alone say
little: a service hands over checks that ask JetStream for its account and for each of its consumers. Checks run side by
side, each with a time limit, so that one hung part cannot hide the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.errors import TrainmasterError

CHECK_TIMEOUT_S: Final = 2.0

Check = Callable[[], Awaitable[str]]
Checks = Mapping[str, Check]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """What all checks found."""

    checks: Mapping[str, CheckResult]

    @property
    def ready(self) -> bool:
        """Whether every check is well."""
        return all(result.ok for result in self.checks.values())

    def document(self) -> dict[str, Any]:
        """The JSON of `/readyz`."""
        checks = {name: {"ok": result.ok, "detail": result.detail} for name, result in sorted(self.checks.items())}
        return {"ready": self.ready, "checks": checks}


async def run_checks(checks: Checks, *, timeout_s: float = CHECK_TIMEOUT_S) -> Readiness:
    """Run all checks at once."""
    results = await asyncio.gather(*(_run(check, timeout_s) for check in checks.values()))
    return Readiness(dict(zip(checks, results, strict=True)))


async def _run(check: Check, timeout_s: float) -> CheckResult:
    try:
        async with asyncio.timeout(timeout_s):
            return CheckResult(ok=True, detail=await check())
    except TimeoutError:
        return CheckResult(ok=False, detail=f"no answer within {timeout_s:g} s")
    except TrainmasterError as error:
        return CheckResult(ok=False, detail=error.message)
    except Exception as error:  # noqa: BLE001  # whatever a check raises is its finding
        return CheckResult(ok=False, detail=f"{type(error).__name__}: {error}")
