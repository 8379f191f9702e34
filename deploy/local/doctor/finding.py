"""What a check has found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is: `warn` where something will be missing, `fail` where the platform will not run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `mend` is the command (or, where there is none, the step) that makes it ok."""

    check: str
    verdict: Verdict
    message: str
    mend: str = ""

    @property
    def document(self) -> dict[str, str]:
        """The finding as JSON has it."""
        return {"check": self.check, "verdict": self.verdict, "message": self.message, "mend": self.mend}


Check = Callable[[], Finding]


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, message)


def warn(check: str, message: str, mend: str) -> Finding:
    """The platform runs, and something will be missing."""
    return Finding(check, Verdict.WARN, message, mend)


def fail(check: str, message: str, mend: str) -> Finding:
    """The platform will not run."""
    return Finding(check, Verdict.FAIL, message, mend)


def examined(name: str, check: Check) -> Finding:
    """What the check finds; one that cannot look says so instead of ending the report."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a doctor that stumbles over one organ still looks at the others
        return warn(name, f"could not be looked at: {type(error).__name__}: {error}", "look at it by hand")
