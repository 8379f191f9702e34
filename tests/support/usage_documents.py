"""Bills and verifications as the platform's API gives them."""

from __future__ import annotations

from typing import Any

from tests.support.job_documents import JOB_ID


def bill_line(**changes: Any) -> dict[str, Any]:
    return {
        "job": JOB_ID,
        "jobName": "mnist-ddp",
        "owner": "ada",
        "project": "vision",
        "attempt": 1,
        "role": "worker",
        "phase": "running",
        "instanceType": "cpu-small",
        "pool": "public",
        "priceMicrosPerHour": 40_000,
        "billable": True,
        "since": "2026-01-02T12:00:00.000Z",
        "replicaMs": 7_200_000,
        "amountMicros": 80_000,
        **changes,
    }


def bill_document(*lines: dict[str, Any], following: str | None = None, accrued: int | None = None) -> dict[str, Any]:
    total = {name: sum(line[name] for line in lines) for name in ("replicaMs", "amountMicros")}
    more = None if accrued is None else {"replicaMs": accrued, "amountMicros": accrued}
    return {"items": list(lines), "next": following, "total": total, "accrued": more}


def verification_document(verdict: str = "same", recorded: int = 80_000) -> dict[str, Any]:
    comparison = {
        "attempt": 1,
        "role": "worker",
        "phase": "running",
        "verdict": verdict,
        "recorded": {"replicaMs": 7_200_000, "amountMicros": recorded},
        "recomputed": {"replicaMs": 7_200_000, "amountMicros": 80_000},
    }
    differs = verdict == "different"
    return {"job": JOB_ID, "jobName": "mnist-ddp", "differs": differs, "comparisons": [comparison]}
