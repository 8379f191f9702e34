"""Follows a job on the terminal: what its replicas write, and what happens to it, merged as they come.

Logs go to standard output; state changes, and what the job waits for, to standard error. Two streams are followed, each
of which survives a restart of the platform. The job's last event does not end it: the logs may be a moment behind, so
the rest of them is waited for where the job ever ran, but not for ever, as a replica that was lost has no end mark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from trainmaster.cli.interruptions import InterruptionTeller
from trainmaster.cli.log_printer import LogPrinter
from trainmaster.cli.screen import Screen
from trainmaster.cli.waiting import WaitTeller
from trainmaster.client import Client
from trainmaster.documents import Job, JobEvent, LogChunk
from trainmaster.errors import ExitCode, UnavailableError, UnreachableError
from trainmaster.merging import TICK_S, Finished, Item, Merger
from trainmaster.rendering.amounts import exit_text
from trainmaster.rendering.moments import clock_time, took
from trainmaster.rendering.style import STATE_STYLES
from trainmaster.rendering.timeline import MOST_LISTED, sentence
from trainmaster.sse import Interruption

LOG_GRACE_S: Final = 15.0
LOGS, EVENTS = "logs", "events"
EXIT_OF_STATE: Final = {
    "Succeeded": ExitCode.OK,
    "Failed": ExitCode.JOB_FAILED,
    "Stopped": ExitCode.JOB_STOPPED,
}

_Value = JobEvent | LogChunk | Interruption


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which logs to follow, and from where."""

    attempt: int | None = None
    role: str | None = None
    index: int | None = None
    tail: int | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether the chosen logs may end long before the job does."""
        return (self.attempt, self.role, self.index) != (None, None, None)


class JobFollower:
    """Follows one job until it has ended."""

    def __init__(
        self,
        client: Client,
        job: str,
        screen: Screen,
        printer: LogPrinter,
        *,
        logs: LogFilter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._job = job
        self._screen = screen
        self._printer = printer
        self._logs = logs or LogFilter()
        self._clock = clock
        self._teller = InterruptionTeller(screen)
        self._wait = WaitTeller(partial(client.explain, job), clock)
        self._was_placed = False
        self._events_ended = False
        self._logs_ended = False
        self._last_sign_s = self._last_tick_s = clock()

    def run(self) -> None:
        """Follow; returns when the job has ended and its logs are printed."""
        for item in self._merger():
            if isinstance(item, Item):
                self._take(item)
            elif isinstance(item, Finished):
                self._finish(item)
            self._tick()
            if self._is_over():
                break
        self._printer.finish()

    def _merger(self) -> Merger[_Value]:
        merger: Merger[_Value] = Merger()
        notes = {source: partial(merger.put, source) for source in (LOGS, EVENTS)}
        chosen = self._logs
        logs = self._client.follow_logs(
            self._job,
            attempt=chosen.attempt,
            role=chosen.role,
            index=chosen.index,
            tail=chosen.tail,
            notice=notes[LOGS],
        )
        merger.add(LOGS, logs)
        merger.add(EVENTS, self._client.follow_events(self._job, notice=notes[EVENTS]))
        return merger

    def _take(self, item: Item[_Value]) -> None:
        self._last_sign_s = self._clock()
        if isinstance(item.value, LogChunk):
            self._printer.feed(item.value)
        elif isinstance(item.value, Interruption):
            self._teller(item.value, item.source)
        else:
            self._tell(item.value)

    def _tick(self) -> None:
        now_s = self._clock()
        if now_s - self._last_tick_s >= TICK_S:
            self._last_tick_s = now_s
            self._printer.tick()
            if why := self._wait():
                self._screen.say(f"-- {why}", style="dim")

    def _tell(self, event: JobEvent) -> None:
        self._wait.hear(event)
        self._was_placed = self._was_placed or event.name == "placed"
        told = f"{clock_time(event.time)} {event.name}: {sentence(event)}".rstrip(": ")
        self._screen.say(f"-- {told}", style=STATE_STYLES.get(event.final_state or "", "dim"))
        self._events_ended = self._events_ended or event.final_state is not None

    def _finish(self, finished: Finished) -> None:
        if finished.error:
            self._printer.finish()
            raise finished.error
        self._logs_ended = self._logs_ended or finished.source == LOGS
        self._events_ended = self._events_ended or finished.source == EVENTS

    def _is_over(self) -> bool:
        if not self._events_ended:
            return self._logs_ended and self._logs.is_narrow
        logs_are_missing = self._was_placed and not self._logs_ended
        return not logs_are_missing or self._clock() - self._last_sign_s > LOG_GRACE_S


def follow_to_the_end(client: Client, job: str, screen: Screen, printer: LogPrinter) -> ExitCode:
    """Follow a job that was just submitted; says how it ended, and gives the exit code that stands for it."""
    advice = f"{job} goes on without you: `trainmaster logs {job} -f` follows it, `trainmaster stop {job}` ends it"
    try:
        JobFollower(client, job, screen, printer).run()
    except KeyboardInterrupt:
        printer.finish()
        screen.say(advice)
        return ExitCode.INTERRUPTED
    except (UnreachableError, UnavailableError):
        screen.say(advice)
        raise
    ended = client.job(job)
    _tell_end(ended, screen)
    return EXIT_OF_STATE.get(ended.state, ExitCode.UNEXPECTED)


def _tell_end(job: Job, screen: Screen) -> None:
    lasted = took(job.submitted_at, job.ended_at)
    screen.say(f"{job.name} {job.state} after {lasted}", style=STATE_STYLES.get(job.state, ""))
    if job.state == "Failed" and job.attempts:
        failed = [replica for replica in job.attempts[-1].replicas if replica.state == "Failed"]
        for replica in failed[:MOST_LISTED]:
            if replica.exit:
                screen.say(f"  {replica.name} on {replica.node} exited {exit_text(replica.exit)}")
