"""The storm: which job is submitted when, and which part of the platform is hit when, all drawn from one seed.

`plan` is pure, so a seed gives the same storm again. `Storm.rage` carries it out against a running platform: one thread
submits and stops jobs, repeating each call with its idempotency key for as long as the platform is away, while the main
thread kills and halts. Everything done is written to the trace.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.chaos.fates import FATES, Fate
from tests.support.platform import Platform, await_

VICTIMS: Final = {"platform": "platform", "agent": "services.agent", "nats": "nats-server"}
# Who is hit how, and how often.
_BLOWS: Final = {
    ("platform", "kill"): 8,
    ("agent", "kill"): 2,
    ("agent", "halt"): 1,
    ("agent", "slow"): 1,
    ("nats", "kill"): 2,
    ("nats", "halt"): 2,
}
CALL_PATIENCE_S: Final = 90.0
SLOW_FILES: Final = Path(__file__).parent / "slow_files"
SLOW_FLAG: Final = "slow-files"


@dataclass(frozen=True)
class Errand:
    """A job that is submitted, or stopped, at a time from the beginning."""

    at_s: float
    what: str
    job: str
    fate: Fate


@dataclass(frozen=True)
class Blow:
    """A kill of one part of the platform, a halt of so many seconds, or so many in which its files are slow."""

    at_s: float
    victim: str
    halt_s: float = 0.0
    slow_s: float = 0.0
    away_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """All of a storm."""

    seed: int
    errands: tuple[Errand, ...]
    blows: tuple[Blow, ...]


def plan(seed: int, jobs: int, duration_s: float) -> Plan:
    """The storm of this seed."""
    chance = random.Random(seed)  # noqa: S311  # a storm is no secret
    errands = tuple(sorted(_errands(chance, jobs, duration_s), key=lambda errand: errand.at_s))
    return Plan(seed, errands, tuple(_blows(chance, duration_s)))


def _errands(chance: random.Random, jobs: int, duration_s: float) -> Iterator[Errand]:
    for number in range(jobs):
        # Every fate comes once before they are drawn, as far as there are jobs enough.
        drawn = chance.choices(FATES, [fate.weight for fate in FATES])[0]
        fate = FATES[number] if number < len(FATES) else drawn
        at_s = chance.uniform(0, duration_s * 0.8)
        name = f"{fate.name}-{number}"
        yield Errand(at_s, "submit", name, fate)
        if fate.stopped:
            yield Errand(at_s + chance.uniform(0, 8), "stop", name, fate)


def _blows(chance: random.Random, duration_s: float) -> Iterator[Blow]:
    at_s = chance.uniform(2, 5)
    # Every kind comes once before they are drawn, as far as there is time, and the worst of them twice.
    first = [*_BLOWS, ("platform", "kill")]
    chance.shuffle(first)
    while at_s < duration_s:
        victim, kind = first.pop() if first else chance.choices(list(_BLOWS), list(_BLOWS.values()))[0]
        match kind:
            case "slow":
                yield Blow(at_s, victim, slow_s=round(chance.uniform(2, 8), 2))
            case "halt":
                yield Blow(at_s, victim, halt_s=round(chance.uniform(0.5, 5), 2))
            case _:
                yield Blow(at_s, victim, away_s=round(chance.uniform(0, 2), 2))
        at_s += chance.uniform(3, 14)


@dataclass
class Storm:
    """A plan against a platform; `ids` and `trace` are filled while it rages."""

    platform: Platform
    plan: Plan
    ids: dict[str, str] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    _began: float = 0.0
    _failure: BaseException | None = None

    def rage(self) -> None:
        """Carry the plan out; returns when every errand and every blow is done and the platform is up again."""
        self._began = time.monotonic()
        errands = threading.Thread(target=self._run_errands)
        errands.start()
        try:
            for blow in self.plan.blows:
                self._wait_until(blow.at_s)
                self._strike(blow)
        finally:
            errands.join()
        if self._failure is not None:
            raise self._failure

    # --- errands

    def _run_errands(self) -> None:
        try:
            for errand in self.plan.errands:
                self._wait_until(errand.at_s)
                self._note(f"{errand.what} {errand.job}")
                self._submit(errand) if errand.what == "submit" else self._stop(errand)
        except BaseException as error:  # noqa: BLE001  # it is raised again in the main thread
            self._failure = error

    def _submit(self, errand: Errand) -> None:
        headers = {"Idempotency-Key": f"{self.plan.seed}-{errand.job}"}
        answer = self._insist("/v1/jobs", (201,), json=errand.fate.document(errand.job), headers=headers)
        self.ids[errand.job] = str(answer.json()["metadata"]["id"])

    def _stop(self, errand: Errand) -> None:
        self._insist(f"/v1/jobs/{self.ids[errand.job]}/stop", (200, 202))

    def _insist(self, path: str, wanted: tuple[int, ...], **content: object) -> httpx.Response:
        """The answer, asked for again while the platform is away."""
        deadline = time.monotonic() + CALL_PATIENCE_S
        while True:
            answer = None
            with suppress(httpx.TransportError), self.platform.http as http:
                answer = http.post(path, **content)  # type: ignore[arg-type]  # httpx has many
            if answer is not None and answer.status_code in wanted:
                return answer
            if answer is not None and answer.status_code < 500:
                raise AssertionError(f"{path} gave {answer.status_code}: {answer.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{path} was not answered well within {CALL_PATIENCE_S:g} s: {answer}")
            time.sleep(0.3)

    # --- blows

    def _strike(self, blow: Blow) -> None:
        kind = "slow files of" if blow.slow_s else "halt" if blow.halt_s else "kill"
        self._note(f"{kind} {blow.victim} {blow.slow_s or blow.halt_s or blow.away_s} s")
        if blow.victim == "platform":
            self.platform.kill()
            time.sleep(blow.away_s)
            self.platform.up()
            self._note("platform is up again")
            return
        process = await_(f"{blow.victim} runs", lambda: self.platform.child(VICTIMS[blow.victim]))
        with suppress(ProcessLookupError):
            self._hit(process, blow)

    def _hit(self, process: int, blow: Blow) -> None:
        if blow.slow_s:
            self._slow_files(blow.slow_s)
        elif blow.halt_s:
            self._halt(process, blow.halt_s)
        else:
            os.kill(process, signal.SIGKILL)

    def _halt(self, process: int, halt_s: float) -> None:
        os.kill(process, signal.SIGSTOP)
        time.sleep(halt_s)
        os.kill(process, signal.SIGCONT)

    def _slow_files(self, slow_s: float) -> None:
        """Every file operation of the agent takes a tenth of a second more, see `slow_files/sitecustomize.py`."""
        flag = self.platform.home / SLOW_FLAG
        flag.touch()
        time.sleep(slow_s)
        flag.unlink()

    def _wait_until(self, at_s: float) -> None:
        time.sleep(max(0.0, self._began + at_s - time.monotonic()))

    def _note(self, what: str) -> None:
        self.trace.append(f"{time.monotonic() - self._began:7.2f}  {what}")
